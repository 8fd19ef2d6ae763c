"""Tensors on the GPU that two processes see, so that gigabytes need not travel between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.gpu.driver import Driver, tensor_at
from harness.worker.protocol import DTYPES


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
        self._addresses = [driver.allocate(max(shape.nbytes, 1)) for shape in shapes]
        self.tensors = tuple(
            tensor_at(address, shape.shape, shape.dtype)
            for address, shape in zip(self._addresses, shapes, strict=True)
        )

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
        self._addresses = [driver.open(each["handle"]) for each in plain]
        self.tensors: tuple[Tensor, ...] = tuple(
            tensor_at(address, tuple(each["shape"]), DTYPES[each["dtype"]])
            for address, each in zip(self._addresses, plain, strict=True)
        )

    def close(self) -> None:
        """See them no more."""
        self.tensors = ()
        for address in self._addresses:
            self._driver.close(address)
        self._addresses = []
