"""Snapshots of parts of the simulated device's memory, to restore them later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.memory import Memory

Range = tuple[int, int]
"""Address and number of bytes."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of some ranges of device memory and of their shadow.

    The shadow has one byte for each byte of memory, which records whether anything has written it.

    Attributes:
        memory: Global memory of the simulated device.
        ranges: Address and number of bytes of each range.
    """

    memory: Memory
    ranges: tuple[Range, ...]
    _kept: tuple[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]], ...]

    @classmethod
    def of(cls, memory: Memory, ranges: Sequence[Range]) -> Snapshot:
        """Take a snapshot of ranges of memory, each of which must lie within a live allocation."""
        kept = ((data.copy(), shadow.copy()) for data, shadow in _views(memory, ranges))
        return cls(memory, tuple(ranges), tuple(kept))

    def restore(self) -> None:
        """Copy the saved bytes and their saved shadow back to device memory."""
        views = _views(self.memory, self.ranges)
        for (data, shadow), (was, was_written) in zip(views, self._kept, strict=True):
            data[...] = was
            shadow[...] = was_written


def _views(
    memory: Memory, ranges: Sequence[Range]
) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
    return [memory.views(address, nbytes) for address, nbytes in ranges]
