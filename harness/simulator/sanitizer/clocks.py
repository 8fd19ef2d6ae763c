"""The clocks of the blocks that run together: `layout.races.Race`."""

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
    """What all blocks of a launch have in common; pointers are to what `layout.races` says.

    `released` is one clock for each warp of the grid, None where nothing is handed from block to
    block; cells are of `1 << shift` bytes, `shared_cells` of them for the shared memory of a block.
    """

    clock: int
    shift: int
    shared_cells: int
    areas: int
    area_count: int
    log: int
    released: Array | None


class Clocks:
    """How far each warp has come, and what it has seen of the others, in race.c's arrays.

    Args:
        native: for the C functions.
        geometry: the launch's.
        lanes: threads that run together.
        common: what other blocks of the launch have too.
        cells: address of the cells of the blocks' shared memory.
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
        """The latest clock of an agent."""

    @property
    def first(self) -> int:
        """The clock at which the blocks started."""
        return int(self._race.chunk_clock)

    @property
    def latest(self) -> int:
        """No clock is later."""
        return max(self.first, int(self.now.max()), self.agents_latest)

    @property
    def agents(self) -> int:
        """How many agents a block may have."""
        return self.agents_seen.shape[1]

    def begin(self, first_block: int) -> None:
        """The next blocks: they start at `first_block` of the order in which they run."""
        clock = self.latest + 1
        self._race.chunk_clock = clock
        self._race.first_thread = first_block * self.threads
        for clocks in (self.now, self.synced, self._floor, self._apart):
            clocks[...] = clock
        for others in (self.seen, self.agents_seen, self._agents_released, self._acquired):
            others[...] = 0

    def barrier(self, at: npt.NDArray[np.bool_] | None, *, whole: bool) -> None:
        """The threads `at` (all if None) have passed a barrier.

        With `whole` it orders all threads of their blocks, also those that have ended.
        """
        pointer = None if at is None else at.ctypes.data
        self._native.race_barrier(self.pointer, pointer, self._lanes, whole)

    def add_agents(self) -> None:
        """Makes room for more agents."""
        more = max(self.agents, _FIRST_AGENTS)
        self.agents_seen = np.pad(self.agents_seen, ((0, 0), (0, more)))
        self._agents_released = np.pad(self._agents_released, ((0, 0), (0, more)))
        self._race.agents = self.agents
        self._race.agents_seen = self.agents_seen.ctypes.data
        self._race.agents_released = self._agents_released.ctypes.data

    def diverge(self, warps: npt.NDArray[np.intp]) -> None:
        """Readers of these warps are not ordered with their warp's own reading any more."""
        self._apart[warps] = _NEVER
