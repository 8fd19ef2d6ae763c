"""Decoding of tensor maps (CUtensorMap) that tensor_map.c encoded, and the addresses of boxes."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass

import numpy as np

from harness.simulator.actions.transfers import Array
from harness.simulator.instructions.narrowing import FORMATS, encode
from harness.simulator.layout.memory import TensorMapEntry

MAP_BYTES = ctypes.sizeof(TensorMapEntry)
MARK = 0x70616D5F6D6973FF
"""The first 8 bytes of every tensor map."""
_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Bytes of an element by its CUtensorMapDataType."""
_LARGEST_SWIZZLE = 3
# The NaN that fills elements outside of a tensor, by element type. An H200 uses this pattern.
_NANS = {6: 0x7FF7, 7: 0x7FF77FF7, 8: 0x7FF77FF77FF77FF7, 9: 0x7FF7} | dict.fromkeys(
    (10, 11, 12), 0x7FF77FF7
)
# Element types whose subnormal numbers become zero, and those that are rounded to tf32.
_FLUSHED, _TF32 = (10, 12), (11, 12)


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory, and the shape of the box (a sub-tensor) that one copy moves.

    The contiguous dimension comes first in every tuple.

    Attributes:
        address: Address of the first element.
        dims: Size of the tensor in each dimension, in elements.
        strides: Bytes from an element to the next in each dimension.
        counts: Size of the box in each dimension, in elements.
        steps: Distance in the tensor between neighbouring elements of the box, in each dimension.
        width: Size of an element in bytes.
        type: The CUtensorMapDataType.
        swizzle: The CUtensorMapSwizzle: 0 for none, 1, 2, 3 for 32, 64, 128 bytes.
        fills_with_nan: True if elements outside of the tensor are NaN and not zero.
    """

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    width: int
    type: int
    swizzle: int
    fills_with_nan: bool

    @classmethod
    def decode(cls, data: bytes) -> TensorMap | None:
        """Return the tensor map that 128 bytes hold, or None if they are not a valid tensor map.

        A kernel can write any bytes to a tensor map, so every field is checked.
        """
        entry = TensorMapEntry.from_buffer_copy(data)
        rank = entry.rank
        if (
            entry.mark != MARK
            or not 1 <= rank <= len(entry.dims)
            or entry.type >= len(_BYTES)
            or entry.swizzle > _LARGEST_SWIZZLE
            or not all(entry.element_strides[1:rank])
        ):
            return None
        width = _BYTES[entry.type]
        # Without interleaving, CUDA ignores the element stride of the contiguous dimension.
        steps = (1, *entry.element_strides[1:rank])
        box = entry.box[:rank]
        return cls(
            address=entry.address,
            dims=tuple(entry.dims[:rank]),
            strides=(width, *entry.strides[: rank - 1]),
            counts=tuple(-(-size // step) for size, step in zip(box, steps, strict=True)),
            steps=steps,
            width=width,
            type=entry.type,
            swizzle=entry.swizzle,
            fills_with_nan=bool(entry.fill),
        )

    @property
    def nbytes(self) -> int:
        """The size of a box in shared memory, in bytes."""
        return int(np.prod(self.counts)) * self.width

    def rows(self, start: tuple[int, ...]) -> tuple[Array, Array, slice]:
        """Return the part of a box inside the tensor; the box begins at coordinates `start`.

        Returns:
            First, the indices of the box's rows that are inside the tensor, at least in part.
            Second, for each of these rows, the address of its first element inside the tensor.
            Third, the range of elements of a row that are inside; it is the same for all rows.
        """
        first = min(max(-start[0], 0), self.counts[0])
        last = max(min(self.counts[0], self.dims[0] - start[0]), first)
        numbers, addresses = [], []
        outer = [range(count) for count in reversed(self.counts[1:])]
        for number, place in enumerate(itertools.product(*outer)):
            indices = [
                begin + step * position
                for begin, step, position in zip(
                    start[1:], self.steps[1:], reversed(place), strict=True
                )
            ]
            if all(0 <= i < size for i, size in zip(indices, self.dims[1:], strict=True)):
                offset = sum(i * s for i, s in zip(indices, self.strides[1:], strict=True))
                numbers.append(number)
                addresses.append(self.address + offset + (start[0] + first) * self.width)
        if first == last:
            numbers, addresses = [], []
        return np.array(numbers, np.int64), np.array(addresses, np.uint64), slice(first, last)

    def outside(self) -> Array:
        """Return the bytes that a copy writes for an element outside of the tensor."""
        nan = _NANS.get(self.type, 0) if self.fills_with_nan else 0
        return np.frombuffer(nan.to_bytes(self.width, "little"), np.uint8)

    def converted(self, elements: Array) -> Array:
        """Convert elements as a copy from the tensor does.

        Depending on the element type, subnormal numbers become zero, numbers are rounded to tf32,
        both, or neither.
        """
        if self.type in _FLUSHED or self.type in _TF32:
            values = elements.view(np.float32)
            if self.type in _FLUSHED:
                values = np.where(np.abs(values) < 2.0**-126, np.copysign(0, values), values)
            if self.type in _TF32:
                exact = values.astype(np.float64)
                bits = encode(exact, FORMATS["tf32"], "rn", frozenset())
                values = bits.view(np.float32)
            return np.ascontiguousarray(values.astype(np.float32)).view(np.uint8)
        return elements


def swizzled(addresses: Array, mode: int) -> Array:
    """Permute the shared addresses of 16-byte chunks within 32, 64 or 128 bytes (modes 1, 2, 3).

    The number of a chunk is combined by exclusive or with the number of its 128-byte line (CUDA C++
    programming guide, "Shared memory bank swizzling").
    """
    mask = np.uint64((1 << mode) - 1)
    permuted: Array = addresses ^ (((addresses >> np.uint64(7)) & mask) << np.uint64(4))
    return permuted
