"""Snapshots of device memory, to restore it later."""

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
    """The bytes of some ranges of device memory, and their shadow, which notes what was written."""

    memory: Memory
    ranges: tuple[Range, ...]
    _kept: tuple[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]], ...]

    @classmethod
    def of(cls, memory: Memory, ranges: Sequence[Range]) -> Snapshot:
        """Take a snapshot of ranges that lie within allocations."""
        kept = ((data.copy(), shadow.copy()) for data, shadow in _views(memory, ranges))
        return cls(memory, tuple(ranges), tuple(kept))

    def restore(self) -> None:
        """Restore memory to the snapshot."""
        views = _views(self.memory, self.ranges)
        for (data, shadow), (was, was_written) in zip(views, self._kept, strict=True):
            data[...] = was
            shadow[...] = was_written


def _views(
    memory: Memory, ranges: Sequence[Range]
) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
    return [memory.views(address, nbytes) for address, nbytes in ranges]
