"""Parts of vast tensors in the device's memory; see `problems/vast.py`.

A vast tensor has very many rows or positions, and only a few parts of it are stored in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from harness.device.executor import DeviceMemory
from harness.device.place import Place
from harness.device.tensors import NoTensor, is_dense, tensor_at
from harness.problems.vast import Vast
from harness.simulator.layout.scalar_types import DTYPES, NUMBERS

# More positions than the threads of a block process.
_MARGIN = 1 << 14


@dataclass(frozen=True)
class VastPart:
    """A part of a vast tensor that is stored in memory.

    Stacked, the parts of a tensor form a small tensor with one row for each part.

    Attributes:
        pieces: The contiguous pieces of memory that the part consists of, in order.
        shape: Shape of the part as one row of the small tensor.
    """

    pieces: tuple[Place, ...]
    shape: tuple[int, ...]

    def joined(self, tensor_of: Callable[[Place], Tensor]) -> Tensor:
        """Return the part as one tensor, joined from the result of `tensor_of` for each piece."""
        return torch.cat([tensor_of(piece).flatten() for piece in self.pieces]).view(self.shape)


def put_vast(memory: DeviceMemory, value: Tensor, vast: Vast) -> Place:
    """Allocate a vast tensor, write the values of its parts, and return its address and layout.

    Args:
        memory: The device's memory, for which `be_sparse(True)` must have been called.
        value: The values, one row for each part.
        vast: Description of the whole tensor.

    Raises:
        harness.simulator.hardware.memory.OutOfDeviceMemory: Too few addresses are left.
    """
    strides = torch.empty(vast.input_shape, device="meta").stride()
    place = Place(0, vast.input_shape, tuple(strides), NUMBERS[value.dtype])
    place = replace(place, address=memory.allocate(place.nbytes))
    for row, part in zip(value, input_parts(place, vast), strict=True):
        for values, piece in zip(row.reshape(len(part.pieces), -1), part.pieces, strict=True):
            tensor_at(memory, piece).copy_(values.view(piece.shape))
            memory.give(piece)
    return place


def input_parts(place: Place, vast: Vast) -> list[VastPart]:
    """Return the parts of a vast input that are stored in memory."""
    return [_part(place, vast.along, start, vast.part) for start in vast.starts]


def output_parts(place: Place, vast: Vast) -> list[VastPart]:
    """Return the parts of a vast output that correspond to the stored parts of the input.

    Raises:
        NoTensor: The output's shape is not `vast.output_shape`, or the output is not dense.
    """
    if place.shape != vast.output_shape or not is_dense(place.shape, place.strides):
        raise NoTensor(f"of shape {place.shape}, not {vast.output_shape}")
    return [_part(place, vast.along, start, vast.output_part) for start in vast.output_starts]


def zero_output(memory: DeviceMemory, place: Place, vast: Vast) -> None:
    """Fill a vast output with zeros: its parts, and `_MARGIN` positions on both sides of each.

    If each part is a whole row, only the parts are filled. All else of new sparse memory is zero
    already, but does not count as written. A kernel's block that reaches a part may also read what
    is beside it.

    Raises what `output_parts` raises.
    """
    length = place.shape[vast.along]
    for start in vast.output_starts:
        first = max(0, start - _MARGIN)
        end = min(length, start + vast.output_part + _MARGIN)
        begin = start if vast.along == 0 else first
        for piece in _part(place, vast.along, begin, end - first).pieces:
            tensor_at(memory, piece).zero_()
            memory.mark(piece, of_kernels=False)


def is_vast_output(memory: DeviceMemory, place: Place, vast: Vast) -> bool:
    """Return whether a tensor has the shape of a vast output, and is only partly in memory."""
    found = memory.find(place.address)
    is_dense_output = place.shape == vast.output_shape and is_dense(place.shape, place.strides)
    return bool(found and found.is_sparse and is_dense_output)


def values_of_parts(memory: DeviceMemory, parts: list[VastPart]) -> Tensor:
    """Return the values of a vast tensor's parts as one tensor with a row for each part.

    Raises what `tensor_at` raises.
    """
    return torch.stack([part.joined(lambda piece: tensor_at(memory, piece)) for part in parts])


def writers_of_parts(memory: DeviceMemory, parts: list[VastPart]) -> Tensor:
    """Return a code for the writer of each element of `values_of_parts`.

    Raises what `DeviceMemory.writers` raises.
    """
    return torch.stack([part.joined(memory.writers) for part in parts])


def _part(place: Place, along: int, start: int, length: int) -> VastPart:
    """Return the part of a vast tensor that begins at index `start` of the long dimension.

    The part is a whole row if there are many rows, else a range of positions in every channel.

    Args:
        place: Address and layout of the whole tensor.
        along: Index of the long dimension: 0 for rows, any other for positions.
        start: Index along the long dimension at which the part begins.
        length: Number of positions of the part; not used for a row.
    """
    if along == 0:
        shape = place.shape[1:]
        return VastPart((_moved(place, start * place.strides[0], shape),), shape)
    pieces = tuple(
        _moved(place, first + start * place.strides[along], (length, *place.shape[along + 1 :]))
        for first in _offsets(place, along)
    )
    return VastPart(pieces, (*place.shape[1:along], length, *place.shape[along + 1 :]))


def _offsets(place: Place, along: int) -> Iterator[int]:
    """Yield the offset of each channel from the tensor's first element, in elements."""
    strides = place.strides[1:along]
    for indices in product(*map(range, place.shape[1:along])):
        yield sum(index * stride for index, stride in zip(indices, strides, strict=True))


def _moved(place: Place, elements: int, shape: tuple[int, ...]) -> Place:
    """Return the description of a smaller tensor inside the tensor `place`.

    The smaller tensor begins `elements` elements after the start of `place`. It has the shape
    `shape`, and the strides of the last dimensions of `place`.
    """
    address = place.address + elements * DTYPES[place.dtype].itemsize
    return Place(address, shape, place.strides[len(place.strides) - len(shape) :], place.dtype)
