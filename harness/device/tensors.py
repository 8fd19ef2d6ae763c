"""Tensors in the device's memory, as torch's kernels for the CPU and the judge see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from harness.problems.arrange import arrange
from harness.problems.runs import Arrangement
from harness.simulator.hardware.memory import Memory
from harness.simulator.layout.scalar_types import DTYPES, NUMBERS
from harness.simulator.native.bindings import BY_KERNEL, UNWRITTEN

WRITTEN = 1
"""What the shadow has of bytes that something else than a kernel wrote."""

OTHER, KERNEL = 1, 2
"""Who wrote an element, where it is not `UNWRITTEN`."""

MOST_DIMENSIONS = 64
_MOST = 1 << 48


@dataclass(frozen=True)
class Place:
    """Where a tensor lies on the device.

    Attributes:
        address: Of its first element; of no meaning where it has none.
        shape: Its sizes.
        strides: In elements.
        dtype: Its number in `DTYPES`.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int

    @staticmethod
    def of(address: int, tensor: Tensor) -> Place:
        """Of a tensor that lies there as it does wherever it is."""
        return Place(address, tuple(tensor.shape), tuple(tensor.stride()), NUMBERS[tensor.dtype])

    @property
    def is_possible(self) -> bool:
        """Whether there can be such a tensor at all."""
        return (
            self.dtype in DTYPES
            and len(self.shape) == len(self.strides) <= MOST_DIMENSIONS
            and all(0 <= number < _MOST for number in (*self.shape, *self.strides))
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    @property
    def nbytes(self) -> int:
        """From its first byte to its last."""
        if self.is_empty:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * DTYPES[self.dtype].itemsize


class NoTensor(ValueError):
    """There is no such tensor in the device's memory."""


def tensor_at(memory: Memory, place: Place) -> Tensor:
    """The tensor itself, as one of the CPU.

    Raises:
        NoTensor: it does not lie within one live allocation.
    """
    return _at(memory, place, 0)


def shadow_at(memory: Memory, place: Place) -> Tensor:
    """The shadow of its memory: uint8 of its shape and one more dimension, an element's bytes.

    Raises:
        NoTensor: it does not lie within one live allocation.
    """
    width = DTYPES[place.dtype].itemsize
    strides = (*(stride * width for stride in place.strides), 1)
    return _at(memory, Place(place.address, (*place.shape, width), strides, 0), 1)


def writers(memory: Memory, place: Place) -> Tensor:
    """Who wrote each element.

    Returns:
        A tensor of uint8, of the same shape: `UNWRITTEN`, where nobody wrote some byte, `KERNEL`,
        where kernels wrote all of it or what it was made of, else `OTHER`.
    """
    states = shadow_at(memory, place)
    found = torch.full(place.shape, OTHER, dtype=torch.uint8)
    found[(states == BY_KERNEL).all(-1)] = KERNEL
    found[(states == UNWRITTEN).any(-1)] = UNWRITTEN
    return found


def put(memory: Memory, value: Tensor, arrangement: Arrangement = "contiguous") -> Place:
    """A copy of a tensor in new memory of the device, of which nothing is known as written.

    Args:
        memory: The device's.
        value: A dense one, unless it is to be arranged.
        arrangement: How it shall lie there; `expanded` has the first row alone.

    Raises:
        harness.simulator.hardware.memory.OutOfDeviceMemory: there is not so much.
    """
    arranged = arrange(value, arrangement)
    lies_well = arrangement != "contiguous" or is_dense(value.shape, value.stride())
    strides = arranged.stride() if lies_well else _in_order(value.shape)
    place = Place(0, tuple(value.shape), tuple(strides), NUMBERS[value.dtype])
    if place.is_empty:
        return place
    skipped = value.element_size() if arrangement == "offset" else 0
    start = memory.allocate(place.nbytes + skipped)
    place = Place(start + skipped, place.shape, place.strides, place.dtype)
    tensor = tensor_at(memory, place)
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


def _at(memory: Memory, place: Place, which: Literal[0, 1]) -> Tensor:
    if not place.is_possible:
        raise NoTensor("no such tensor can be")
    dtype = DTYPES[place.dtype]
    if place.is_empty:
        return torch.empty_strided(place.shape, place.strides, dtype=dtype)
    try:
        data = memory.views(place.address, place.nbytes)[which]
    except ValueError as error:
        raise NoTensor(str(error)) from None
    return torch.from_numpy(data).view(dtype).as_strided(place.shape, place.strides)
