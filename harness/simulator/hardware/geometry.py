"""A launch's grid and blocks, and the placement of their threads on the lanes of chunks.

A chunk is a number of blocks that the simulator runs together. A lane is the number of a thread in
its chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WARP = 32
"""The number of threads in a warp."""

Array = npt.NDArray[Any]
Extent = tuple[int, int, int]


def coordinates(index: int, extent: Extent) -> Extent:
    """Return the coordinates of number `index` in a grid or block that is counted x first."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


def coordinates_of(index: Array, extent: Extent) -> tuple[Array, Array, Array]:
    """Return the coordinates of many numbers, as arrays of x, y and z."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


@dataclass(frozen=True)
class Geometry:
    """The extents of a launch.

    Attributes:
        grid: Blocks of the grid along x, y and z.
        block: Threads of a block along x, y and z.
    """

    grid: Extent
    block: Extent

    @property
    def blocks(self) -> int:
        """The number of blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]


class Placement:
    """The order in which the blocks of a launch and their threads are placed on lanes.

    Schedule 0 is the natural order. Any other number is the seed of a permutation of the grid's
    blocks and of each block's warps. A correct kernel gives the same result in every order, so
    another order exposes a kernel that depends on it.

    Attributes:
        geometry: The extents of the launch.
        count: How many blocks are placed.
    """

    def __init__(
        self,
        geometry: Geometry,
        schedule: int = 0,
        together: int = WARP,
        chosen: tuple[int, ...] = (),
    ) -> None:
        """Place all blocks, or only the chosen ones.

        Args:
            geometry: The extents of the launch.
            schedule: 0 for the natural order, or the seed of a permutation. Chosen blocks always
                run in the natural order.
            together: How many consecutive threads stay neighbours: a warp, or a warpgroup for
                kernels that have those.
            chosen: Numbers of the blocks to run; empty for all.
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
        """Return whether both placements put the same threads on the same lanes."""
        return self.geometry == other.geometry and self._order == other._order

    def block(self, position: int) -> Extent:
        """Return the coordinates of the block at this position of the order."""
        return coordinates(int(self.block_numbers(position, 1)[0]), self.geometry.grid)

    def thread(self, lane: int) -> Extent:
        """Return the coordinates of the thread on a lane of a block."""
        return coordinates(int(self._threads[lane]), self.geometry.block)

    @property
    def thread_numbers(self) -> Array:
        """The number of the thread on each lane of a block."""
        return self._threads

    def block_numbers(self, first: int, count: int) -> Array:
        """Return the numbers of `count` blocks from position `first` of the order.

        Positions past the end repeat the last block.
        """
        places = np.minimum(np.arange(first, first + count), self.count - 1)
        return places if self._blocks is None else self._blocks[places]
