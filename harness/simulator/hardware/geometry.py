"""A launch's grid and blocks, and which of their threads the lanes of a chunk stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WARP = 32
"""Threads in a warp."""

Array = npt.NDArray[Any]
Extent = tuple[int, int, int]


def coordinates(index: int, extent: Extent) -> Extent:
    """Where number `index` lies in a grid or block that is counted x first."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


def coordinates_of(index: Array, extent: Extent) -> tuple[Array, Array, Array]:
    """`coordinates` of many."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


@dataclass(frozen=True)
class Geometry:
    """A launch's grid and block, in blocks and threads."""

    grid: Extent
    block: Extent

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]


class Placement:
    """Which block and thread the lanes stand for, of `count` blocks.

    Schedule 0 is the natural order. Another number is the seed of a permutation of the grid's
    blocks and of each block's warps, with which a correct kernel has the same result.
    """

    def __init__(
        self,
        geometry: Geometry,
        schedule: int = 0,
        together: int = WARP,
        chosen: tuple[int, ...] = (),
    ) -> None:
        """Place all blocks, or those of them that are chosen, which run in the natural order.

        `together` threads in a row stay neighbours: a warp, or a warpgroup where there are.
        """
        self.geometry = geometry
        self.count = len(chosen) or geometry.blocks
        self._order = schedule, together, chosen
        self._blocks: Array | None = np.array(chosen) if chosen else None
        self._threads: Array = np.arange(geometry.threads, dtype=np.uint32)
        if schedule and not chosen:
            rng = np.random.default_rng(schedule)
            self._blocks = rng.permutation(geometry.blocks)
            whole = geometry.threads // together
            warps = self._threads[: whole * together].reshape(whole, together)
            warps[...] = warps[rng.permutation(whole)]

    def is_same(self, other: Placement) -> bool:
        """Whether the lanes stand for the same threads."""
        return self.geometry == other.geometry and self._order == other._order

    def block(self, position: int) -> Extent:
        """The block that runs at this place of the order."""
        return coordinates(int(self.block_numbers(position, 1)[0]), self.geometry.grid)

    def thread(self, lane: int) -> Extent:
        """The thread of a block's lane."""
        return coordinates(int(self._threads[lane]), self.geometry.block)

    @property
    def thread_numbers(self) -> Array:
        """For each lane of a block the number of its thread."""
        return self._threads

    def block_numbers(self, first: int, count: int) -> Array:
        """Numbers of `count` blocks from place `first` of the order on; past the end, any."""
        places = np.minimum(np.arange(first, first + count), self.count - 1)
        return places if self._blocks is None else self._blocks[places]
