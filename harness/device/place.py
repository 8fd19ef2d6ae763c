"""Where a tensor lies in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.simulator.layout.scalar_types import DTYPES, NUMBERS

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
