"""Description of a tensor in the device's memory: its address, shape, strides and dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from torch import Tensor

from harness.simulator.layout.scalar_types import DTYPES, NUMBERS

MOST_DIMENSIONS = 64
"""Most dimensions that a tensor may have."""
# Each size and each stride is less than this.
_MOST = 1 << 48

_Size = Annotated[int, Meta(ge=0, lt=_MOST)]
_Sizes = Annotated[tuple[_Size, ...], Meta(max_length=MOST_DIMENSIONS)]


@dataclass(frozen=True)
class Place:
    """A description of a strided tensor in the device's memory.

    Attributes:
        address: Device address of the first element; not used if the tensor is empty.
        shape: Size of each dimension.
        strides: Stride of each dimension, in elements.
        dtype: Number of the dtype in `DTYPES`.
    """

    # Untrusted code sends descriptions in messages; decoding checks their numbers.
    address: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    shape: _Sizes
    strides: _Sizes
    dtype: Annotated[int, Meta(ge=0)]

    @staticmethod
    def of(address: int, tensor: Tensor) -> Place:
        """Return the description of a tensor at `address` with the layout and dtype of `tensor`."""
        return Place(address, tuple(tensor.shape), tuple(tensor.stride()), NUMBERS[tensor.dtype])

    @property
    def is_possible(self) -> bool:
        """True if a tensor can have this dtype, these sizes and these strides."""
        return (
            self.dtype in DTYPES
            and len(self.shape) == len(self.strides) <= MOST_DIMENSIONS
            and all(0 <= number < _MOST for number in (*self.shape, *self.strides))
        )

    @property
    def is_empty(self) -> bool:
        """True if the tensor has no elements."""
        return 0 in self.shape

    @property
    def nbytes(self) -> int:
        """Number of bytes from the first byte to the last, gaps included; 0 for an empty tensor."""
        if self.is_empty:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * DTYPES[self.dtype].itemsize
