"""Tensors on the GPU that two processes see, so that gigabytes need not travel between them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.gpu.driver import Driver, tensor_at
from harness.messages.channel import DTYPES

# A tensor may lie this many bytes further back than its memory begins, in steps that keep what
# torch's allocator gives: addresses that 512 divides.
_ROOM = 1 << 20
_STEP = 512


def any_place() -> int:
    """Where in its memory a tensor may lie: bytes from the beginning, drawn at random."""
    return _STEP * secrets.randbelow(_ROOM // _STEP + 1)


@dataclass(frozen=True)
class Shape:
    """What a shared tensor is like."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize


class Exported:
    """Tensors of this process that others may open. Use as a context manager."""

    def __init__(self, driver: Driver, shapes: Sequence[Shape]) -> None:
        self._driver = driver
        self._shapes = shapes
        self._addresses = [driver.allocate(shape.nbytes + _ROOM) for shape in shapes]
        self.tensors = self.at([0] * len(shapes))

    def at(self, places: Sequence[int]) -> tuple[Tensor, ...]:
        """The tensors, each so many bytes behind the beginning of its memory."""
        return _laid(self._addresses, places, self._shapes)

    def __enter__(self) -> Exported:
        return self

    def __exit__(self, *_: object) -> None:
        for address in self._addresses:
            self._driver.free(address)

    def to_plain(self) -> list[dict[str, Any]]:
        """What `Opened` needs, as plain data."""
        return [
            {
                "handle": self._driver.export(address),
                "shape": list(shape.shape),
                "dtype": str(shape.dtype).removeprefix("torch."),
            }
            for address, shape in zip(self._addresses, self._shapes, strict=True)
        ]


class Opened:
    """Tensors of another process."""

    def __init__(self, driver: Driver, plain: Sequence[dict[str, Any]]) -> None:
        self._driver = driver
        self._shapes = [Shape(tuple(each["shape"]), DTYPES[each["dtype"]]) for each in plain]
        self._addresses = [driver.open(each["handle"]) for each in plain]
        self._places = [0] * len(plain)
        self.tensors = _laid(self._addresses, self._places, self._shapes)

    def at(self, places: Sequence[int]) -> tuple[Tensor, ...]:
        """As `Exported.at`; where they stay, they are the same objects as the last time."""
        if self._places != list(places):
            self._places = list(places)
            self.tensors = _laid(self._addresses, self._places, self._shapes)
        return self.tensors

    def close(self) -> None:
        """See them no more."""
        self.tensors = ()
        for address in self._addresses:
            self._driver.close(address)
        self._addresses = []


def _laid(
    addresses: Sequence[int], places: Sequence[int], shapes: Sequence[Shape]
) -> tuple[Tensor, ...]:
    return tuple(
        tensor_at(address + place, shape.shape, shape.dtype)
        for address, place, shape in zip(addresses, places, shapes, strict=True)
    )
