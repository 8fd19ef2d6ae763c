"""The clocks of the blocks that run together, in the arrays of `layout.races.Race`."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.geometry import WARP, Geometry
from harness.simulator.layout.races import Race
from harness.simulator.native.bindings import Native

Array = npt.NDArray[np.uint32]

_FIRST_AGENTS = 8
_NEVER = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Common:
    """The state of race detection that all blocks of a launch share.

    Attributes:
        clock: The clock at which the launch begins.
        shift: A cell stands for `1 << shift` bytes.
        shared_cells: Cells of one block's shared memory.
        areas: Address of the array of `layout.races.Area`.
        area_count: The number of areas.
        log: Address of the `layout.races.Log`.
        released: One clock for each warp of the grid; None if the kernel has no fence, so that
            blocks cannot hand data to each other.
    """

    clock: int
    shift: int
    shared_cells: int
    areas: int
    area_count: int
    log: int
    released: Array | None


class Clocks:
    """The clock of each warp, and the clocks up to which it has seen other warps and agents.

    race.h describes the algorithm. Clocks only grow, from one chunk of blocks to the next and from
    one launch to the next. So cells need no clearing: a clock before the start is out of date.

    Args:
        native: The C functions.
        geometry: The extents of the launch.
        lanes: The number of threads that run together.
        common: The state that other blocks of the launch share.
        cells: Address of the cells of the blocks' shared memory.
    """

    def __init__(
        self, native: Native, geometry: Geometry, lanes: int, common: Common, cells: int
    ) -> None:
        threads = geometry.threads
        blocks = lanes // threads
        self._native = native
        self._lanes = lanes
        self.threads = threads
        self.warps = -(-threads // WARP)
        lane = np.arange(lanes, dtype=np.uint32)
        start = (lane // threads * self.warps).astype(np.uint32)
        self.warp_of = (start + lane % threads // WARP).astype(np.uint32)
        self._block_start = np.repeat(
            np.arange(blocks, dtype=np.uint32) * np.uint32(self.warps), self.warps
        )
        self.now, self.synced, self._floor, self._apart = (
            np.zeros(blocks * self.warps, np.uint32) for _ in range(4)
        )
        self.seen = np.zeros((blocks * self.warps, self.warps), np.uint32)
        self.agents_seen = np.zeros((blocks * self.warps, 0), np.uint32)
        self._agents_released = np.zeros((blocks, 0), np.uint32)
        self._acquired = np.zeros(blocks * self.warps, np.uint8)
        self._common = common
        released = common.released
        self._race = Race(
            lanes=lanes,
            threads=threads,
            warps=self.warps,
            shift=common.shift,
            launch_clock=common.clock,
            chunk_clock=common.clock,
            warp_of=self.warp_of.ctypes.data,
            block_start=self._block_start.ctypes.data,
            now=self.now.ctypes.data,
            synced=self.synced.ctypes.data,
            floor=self._floor.ctypes.data,
            apart=self._apart.ctypes.data,
            seen=self.seen.ctypes.data,
            released=None if released is None else released.ctypes.data,
            acquired=self._acquired.ctypes.data,
            shared=cells,
            shared_cells=common.shared_cells,
            areas=common.areas,
            area_count=common.area_count,
            log=common.log,
        )
        self.pointer = ctypes.addressof(self._race)
        self.agents_latest = 0
        """The latest clock of all agents."""

    @property
    def first(self) -> int:
        """The clock at which the blocks started."""
        return int(self._race.chunk_clock)

    @property
    def latest(self) -> int:
        """The latest clock of all warps and agents."""
        return max(self.first, int(self.now.max()), self.agents_latest)

    @property
    def agents(self) -> int:
        """The number of agents that a block has room for."""
        return self.agents_seen.shape[1]

    def begin(self, first_block: int) -> None:
        """Start the clocks of the next blocks, after all clocks of the previous ones.

        Args:
            first_block: Position of the first block in the order in which they run.
        """
        clock = self.latest + 1
        self._race.chunk_clock = clock
        self._race.first_thread = first_block * self.threads
        for clocks in (self.now, self.synced, self._floor, self._apart):
            clocks[...] = clock
        for others in (self.seen, self.agents_seen, self._agents_released, self._acquired):
            others[...] = 0

    def barrier(self, at: npt.NDArray[np.bool_] | None, *, whole: bool) -> None:
        """Order the threads that have passed a barrier.

        Args:
            at: The threads; None for all.
            whole: True to order all threads of their blocks, including those that have ended.
        """
        pointer = None if at is None else at.ctypes.data
        self._native.race_barrier(self.pointer, pointer, self._lanes, whole)

    def add_agents(self) -> None:
        """Double the room for agents, which moves the arrays that race.c uses."""
        more = max(self.agents, _FIRST_AGENTS)
        self.agents_seen = np.pad(self.agents_seen, ((0, 0), (0, more)))
        self._agents_released = np.pad(self._agents_released, ((0, 0), (0, more)))
        self._race.agents = self.agents
        self._race.agents_seen = self.agents_seen.ctypes.data
        self._race.agents_released = self._agents_released.ctypes.data

    def diverge(self, warps: npt.NDArray[np.intp]) -> None:
        """Stop assuming that other readers are unordered with the reads of these warps.

        race.c skips a read if two other readers are certainly unordered with it. After a wait by
        some warps of a block that is no longer certain.
        """
        self._apart[warps] = _NEVER
