"""Tensors in the device's memory, as torch's operators and the judge see them."""

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
    """There is no such tensor in the device's memory."""


def tensor_at(memory: DeviceMemory, place: Place) -> Tensor:
    """The tensor itself, as one of the memory's `torch_device`.

    Raises:
        NoTensor: it does not lie within one live allocation.
    """
    if not place.is_possible:
        raise NoTensor("no such tensor can be")
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
    """A copy of a tensor in new memory of the device, of which nothing is known as written.

    Torch would have had it there at once, so that the copy's time is no call's.

    Args:
        memory: The device's.
        value: A dense one, unless it is to be arranged.
        arrangement: How it shall lie there; `expanded` has the first row alone.
        skipped: Bytes of the memory before its first element.

    Raises:
        harness.simulator.hardware.memory.OutOfDeviceMemory: there is not so much.
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
    """Whether the elements lie side by side, each at a place of its own."""
    expected = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(tuple(shape), device="meta").stride()
