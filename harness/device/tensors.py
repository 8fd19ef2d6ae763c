"""Tensors in the device's memory, for torch's operators and for the judge."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.device.executor import DeviceMemory
from harness.device.place import Place
from harness.problems.arrange import arrange
from harness.problems.runs import Arrangement
from harness.simulator.layout.scalar_types import DTYPES, NUMBERS


class NoTensor(ValueError):
    """A `Place` (address and layout) that does not describe a tensor in the device's memory."""


def tensor_at(memory: DeviceMemory, place: Place) -> Tensor:
    """Return the tensor that `place` describes, on the memory's `torch_device`, without a copy.

    Raises:
        NoTensor: The description is invalid, or its bytes are not within one live allocation.
    """
    if not place.is_possible:
        raise NoTensor("its description is not that of a tensor")
    dtype = DTYPES[place.dtype]
    if place.is_empty:
        return torch.empty_strided(
            place.shape, place.strides, dtype=dtype, device=memory.torch_device
        )
    try:
        data = memory.bytes_at(place.address, place.nbytes)
    except ValueError as error:
        raise NoTensor(str(error)) from None
    return data.view(dtype).as_strided(place.shape, place.strides)


def put(
    memory: DeviceMemory,
    value: Tensor,
    arrangement: Arrangement = "contiguous",
    skipped: int = 0,
) -> Place:
    """Copy a tensor into new memory of the device, and return its address and layout.

    The memory does not count as written yet; the caller must record the writer of the values. The
    time of the copy is not counted, because torch without the harness would not copy the tensor.

    Args:
        memory: The device's memory.
        value: The tensor. With the arrangement `contiguous`, the copy of a dense tensor keeps its
            strides, and the copy of any other tensor is contiguous.
        arrangement: Layout of the copy; `expanded` stores the first row alone.
        skipped: Number of unused bytes in front of the first element.

    Raises:
        harness.simulator.hardware.memory.OutOfDeviceMemory: Too little memory is left.
    """
    arranged = arrange(value, arrangement)
    lies_well = arrangement != "contiguous" or is_dense(value.shape, value.stride())
    strides = arranged.stride() if lies_well else _in_order(value.shape)
    place = Place(0, tuple(value.shape), tuple(strides), NUMBERS[value.dtype])
    if place.is_empty:
        return place
    skipped += value.element_size() if arrangement == "offset" else 0
    start = memory.allocate(place.nbytes + skipped)
    place = Place(start + skipped, place.shape, place.strides, place.dtype)
    tensor = tensor_at(memory, place)
    with memory.uncounted():
        if arrangement == "expanded" and value.dim():
            tensor[:1].copy_(value[:1])
        else:
            tensor.copy_(value)
    return place


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether a tensor's elements fill a range of memory without gaps or overlaps."""
    expected = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor of that shape."""
    return torch.empty(tuple(shape), device="meta").stride()
