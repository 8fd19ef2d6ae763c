"""A launch's grid and blocks, and the order in which the simulator runs them.

The simulator runs a group of blocks together, which is called a chunk. The threads of a chunk are
numbered; the number of a thread in its chunk is its lane.
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
    """Return the (x, y, z) coordinates of the block or thread with a linear index.

    Args:
        index: The linear index, in which x varies fastest.
        extent: The size of the grid or block along x, y and z.
    """
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


def coordinates_of(index: Array, extent: Extent) -> tuple[Array, Array, Array]:
    """Return the (x, y, z) coordinates of many blocks or threads, one array for each axis.

    Args:
        index: The linear indices, in which x varies fastest.
        extent: The size of the grid or block along x, y and z.
    """
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
    """The order in which the simulator assigns a launch's blocks and their threads to lanes.

    Lanes number the threads of the blocks that run together. Schedule 0 is the natural order. Any
    other schedule is the seed of a random permutation of the grid's blocks and of the warps in a
    block. A correct kernel gives the same result in every order, so another schedule exposes a
    kernel that depends on the order. In another schedule, some warps may also run ahead (`ahead`).

    Attributes:
        geometry: The extents of the launch.
        count: How many blocks are run.
        schedule: The number of the order.
    """

    def __init__(
        self,
        geometry: Geometry,
        schedule: int = 0,
        together: int = WARP,
        chosen: tuple[int, ...] = (),
    ) -> None:
        """Compute the order of all blocks of the grid, or of the blocks in `chosen` only.

        Args:
            geometry: The extents of the launch.
            schedule: 0 for the natural order, or the seed of a permutation. Chosen blocks always
                run in the natural order.
            together: How many consecutive threads are moved as a unit: a warp, or a warpgroup if
                the kernel has instructions for warpgroups.
            chosen: Linear indices of the blocks to run; empty for all.
        """
        self.geometry = geometry
        self.count = len(chosen) or geometry.blocks
        self.schedule = schedule
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
        """Return whether both placements assign the same threads to the same lanes."""
        return self.geometry == other.geometry and self._order == other._order

    def block(self, position: int) -> Extent:
        """Return the (x, y, z) coordinates in the grid of the block that runs at this position."""
        return coordinates(int(self.block_numbers(position, 1)[0]), self.geometry.grid)

    def thread(self, lane: int) -> Extent:
        """Return the (x, y, z) coordinates of the thread that runs on this lane of a block."""
        return coordinates(int(self._threads[lane]), self.geometry.block)

    def ahead(self, lanes: int) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the threads that run ahead of the others in this schedule.

        These are half of each block's warps. An even schedule has the other half than the odd one
        before it. So of any two warps that pass a value without waiting for each other, the reader
        runs first in some block or in one of these schedules.

        Args:
            lanes: The number of threads that run together, in whole blocks.

        Returns:
            The mask, or None if no thread runs ahead, as in schedule 0.
        """
        schedule, together, chosen = self._order
        if not schedule or chosen:
            return None
        threads = self.geometry.threads
        blocks, warps = lanes // threads, -(-threads // together)
        rng = np.random.default_rng((schedule + 1) // 2)
        rank = rng.permuted(np.tile(np.arange(warps), (blocks, 1)), axis=1)
        is_later = (rank >= warps // 2) ^ rng.integers(2, size=(blocks, 1), dtype=np.bool_)
        mask = is_later[:, self._threads // together].reshape(-1) ^ (schedule % 2 == 0)
        return None if mask.all() or not mask.any() else mask

    @property
    def thread_numbers(self) -> Array:
        """The linear index in the block of the thread that runs on each lane of the block."""
        return self._threads

    def block_numbers(self, first: int, count: int) -> Array:
        """Return the linear indices of the `count` blocks that run from position `first` on.

        Positions past the end repeat the last block.
        """
        places = np.minimum(np.arange(first, first + count), self.count - 1)
        return places if self._blocks is None else self._blocks[places]
