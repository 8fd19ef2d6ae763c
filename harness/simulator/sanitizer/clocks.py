"""The vector clocks of race detection for the blocks that are simulated together."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.geometry import WARP, Geometry
from harness.simulator.layout.races import PUBLICATIONS, Race
from harness.simulator.native.bindings import Native

Array = npt.NDArray[np.uint32]

_FIRST_AGENTS = 8
_NEVER = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Common:
    """The state of race detection that all blocks of a launch share.

    A clock is a logical time, which advances at synchronisations. A cell remembers the last
    accesses to `1 << shift` bytes of memory.

    Attributes:
        clock: The clock at which the launch begins.
        shift: Base-2 logarithm of the number of bytes that one cell covers.
        shared_cells: Number of cells for one block's shared memory.
        areas: Address of the array of `layout.races.Area`: the checked parts of global memory.
        area_count: Number of elements in the array `areas`.
        log: Address of the `layout.races.Log`, which receives the races that are found.
        flags: Address of the `layout.races.Flags`; None if the kernel has no fence.
        published: For each warp of the grid, its `layout.races.Publication`s to other blocks.
    """

    clock: int
    shift: int
    shared_cells: int
    areas: int
    area_count: int
    log: int
    flags: int | None
    published: Array


class Clocks:
    """The clock and the vector clock of each warp of a chunk (blocks simulated together).

    A warp's vector clock holds one clock for each other warp and agent (asynchronous unit) of the
    block. Accesses up to this clock are ordered before the warp's present accesses. race.h
    describes the algorithm. Clocks only grow, from chunk to chunk and from launch to launch. Cells
    that remember accesses therefore need no clearing: an access with a clock from before the start
    of the chunk or launch is ignored.

    Args:
        native: The simulator's C functions.
        geometry: Grid and block of the launch.
        lanes: Number of threads that are simulated together.
        common: The state that all blocks of the launch share.
        cells: Address of the cells for the shared memory of the chunk's blocks.
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
        self.reach = np.zeros((blocks * self.warps, 4), np.uint32)
        self._published = np.zeros((blocks * self.warps, PUBLICATIONS, 2), np.uint32)
        self._common = common
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
            flags=common.flags,
            published=common.published.ctypes.data,
            published_in_block=self._published.ctypes.data,
            reach=self.reach.ctypes.data,
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
        """The clock (logical time) at which the blocks that are now simulated started."""
        return int(self._race.chunk_clock)

    @property
    def latest(self) -> int:
        """The latest clock (logical time) of any warp or asynchronous agent so far."""
        return max(self.first, int(self.now.max()), self.agents_latest)

    @property
    def has_flags(self) -> bool:
        """True if the kernel has a fence, so that its threads may hand over data by flags."""
        return self._common.flags is not None

    @property
    def agents(self) -> int:
        """The number of agents (asynchronous units) of a block that the arrays have room for."""
        return self.agents_seen.shape[1]

    def begin(self, first_block: int) -> None:
        """Start the next blocks at a clock (logical time) that is later than all earlier clocks.

        Args:
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        clock = self.latest + 1
        self._race.chunk_clock = clock
        self._race.first_thread = first_block * self.threads
        for clocks in (self.now, self.synced, self._floor, self._apart):
            clocks[...] = clock
        for others in (self.seen, self.agents_seen, self._agents_released):
            others[...] = 0
        self.reach[...] = self._published[...] = 0

    def barrier(self, at: npt.NDArray[np.bool_] | None, *, whole: bool) -> None:
        """Record that threads have passed a barrier, which orders their accesses.

        Args:
            at: Mask of the threads, or None for all threads that are simulated together.
            whole: True to order all threads of every block that has a thread in `at`, including
                ended threads. False to order only the warps that have threads in `at`.
        """
        pointer = None if at is None else at.ctypes.data
        self._native.race_barrier(self.pointer, pointer, self._lanes, whole)

    def add_agents(self) -> None:
        """Double the number of agents (asynchronous units) that the arrays have room for.

        The arrays move, so their addresses for race.c are updated.
        """
        more = max(self.agents, _FIRST_AGENTS)
        self.agents_seen = np.pad(self.agents_seen, ((0, 0), (0, more)))
        self._agents_released = np.pad(self._agents_released, ((0, 0), (0, more)))
        self._race.agents = self.agents
        self._race.agents_seen = self.agents_seen.ctypes.data
        self._race.agents_released = self._agents_released.ctypes.data

    def diverge(self, warps: npt.NDArray[np.intp]) -> None:
        """Switch off a shortcut of race.c for the reads of the given warps.

        With the shortcut, race.c does not record a read if the cell already holds two reads that
        are certainly unordered with the new read. The reads of a warp that has waited for other
        warps may be ordered after reads of those warps, so the shortcut would be wrong.
        """
        self._apart[warps] = _NEVER
