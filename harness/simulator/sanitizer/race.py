"""Race detection of one launch: the setup of race.c, and the findings afterwards."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.finding import Finding
from harness.simulator.hardware.geometry import WARP, Placement
from harness.simulator.hardware.memory import Allocation, Memory
from harness.simulator.layout.races import PUBLICATIONS, Area, Cell, Flag, Flags, Log, RaceEvent
from harness.simulator.lowering.program import Access
from harness.simulator.native.bindings import Native
from harness.simulator.sanitizer.clocks import Clocks, Common
from harness.simulator.sanitizer.provenance import ANYWHERE, Traits
from harness.simulator.sanitizer.race_findings import findings_of

_EVENTS = 256
"""The most pairs of places in one kernel's code that are reported separately."""
_MOST_CELLS = 1 << 26
"""The most cells of a launch, which take 2 GiB. They stand for 256 MiB of memory at 4 bytes each;
allocations beyond that are not checked for races."""
_KEPT_CELLS = 1 << 24
"""The most cells whose memory is kept between launches."""
_LAST_CLOCK = 1 << 31
"""Beyond this clock, a launch starts again with clock 1 and cleared cells."""

_FLAGS = 1 << 16
"""The most words of memory that are told apart as flags in a launch."""

_CELL_BYTES, _FLAG_BYTES = ctypes.sizeof(Cell), ctypes.sizeof(Flag)


@dataclass
class RaceHistory:
    """The state of race detection that one launch leaves for the next launch.

    A cell remembers accesses to memory with their clocks (logical times). Cells need no clearing,
    because the clock at which the next launch begins is later than all clocks in the cells.

    Attributes:
        clock: The clock at which the next launch begins.
        cells: The cells (`layout.races.Cell`), each as a row of 32-bit words.
    """

    clock: int = 1
    cells: npt.NDArray[np.uint32] = field(
        default_factory=lambda: np.zeros((0, _CELL_BYTES // 4), np.uint32)
    )

    def take(self, count: int) -> npt.NDArray[np.uint32]:
        """Return at least `count` cells, each of which can remember accesses to a few bytes.

        All clocks in the cells are earlier than `self.clock`.
        """
        if self.clock > _LAST_CLOCK:
            self.clock, self.cells = 1, self.cells[:0]
        if len(self.cells) < count:
            self.cells = np.zeros((count, _CELL_BYTES // 4), np.uint32)
        return self.cells

    def leave(self, clock: int) -> None:
        """Store the clock (logical time) at which the next launch begins.

        If there are more than 2**24 cells, free them.

        Args:
            clock: A clock that is later than all clocks of the launch.
        """
        self.clock = clock
        if len(self.cells) > _KEPT_CELLS:
            self.cells = self.cells[:0]


class Races:
    """Race detection of one launch.

    A cell remembers the last accesses to a few bytes of memory. The cells are one array: first the
    cells of shared memory, then those of each allocation that the kernel may store to.

    Args:
        native: The simulator's C functions.
        history: The state after the previous launch.
        memory: Global memory.
        kernel: The kernel's readable name, for findings.
        traits: The properties of the kernel from static analysis.
        placement: Order of blocks and threads.
        lanes: Number of threads that are simulated together.
        shared_bytes: Bytes of a block's shared memory.
        arguments: Bytes of the kernel's arguments.
    """

    def __init__(
        self,
        native: Native,
        history: RaceHistory,
        memory: Memory,
        kernel: str,
        traits: Traits,
        placement: Placement,
        lanes: int,
        shared_bytes: int,
        arguments: bytes,
    ) -> None:
        self._native = native
        self._history = history
        self._kernel = kernel
        self._placement = placement
        self._lanes = lanes
        geometry = placement.geometry
        unit = traits.access_bytes
        blocks = lanes // geometry.threads
        self._shared_cells = blocks * -(-shared_bytes // unit)
        allocations = _stored_to(traits, memory, arguments)
        sizes = [-(-a.size // unit) for a in allocations]
        self._cells = [history.take(min(self._shared_cells + sum(sizes), _MOST_CELLS))]
        areas, used = [], self._shared_cells
        for allocation, size in zip(allocations, sizes, strict=True):
            if used + size <= len(self._cells[0]):
                address = self._cells[0].ctypes.data + used * _CELL_BYTES
                areas.append(Area(allocation.start, allocation.end, address))
                used += size
        self._areas = (Area * len(areas))(*areas)
        self._events = (RaceEvent * _EVENTS)()
        self._log = Log(ctypes.addressof(self._events), 0, _EVENTS)
        warps = -(-geometry.threads // WARP)
        flags = _FLAGS if traits.has_fence else 0
        self._table = np.zeros((flags + 1, _FLAG_BYTES), np.uint8)
        self._flags = Flags(table=self._table.ctypes.data, size=flags)
        fencing = geometry.blocks * warps if flags else 0
        self._common = Common(
            clock=history.clock,
            shift=unit.bit_length() - 1,
            shared_cells=-(-shared_bytes // unit),
            areas=ctypes.addressof(self._areas),
            area_count=len(areas),
            log=ctypes.addressof(self._log),
            flags=ctypes.addressof(self._flags) if flags else None,
            published=np.zeros((fencing, PUBLICATIONS, 2), np.uint32),
        )
        self._clocks: list[Clocks] = []

    def clocks(self) -> Clocks:
        """Make vector clocks for one chunk (blocks that are simulated together).

        Several chunks may be in execution at once. Each of them has its own cells for shared
        memory.
        """
        if self._clocks:
            self._cells.append(np.zeros((self._shared_cells, _CELL_BYTES // 4), np.uint32))
        cells = self._cells[-1].ctypes.data
        geometry = self._placement.geometry
        self._clocks.append(Clocks(self._native, geometry, self._lanes, self._common, cells))
        return self._clocks[-1]

    @property
    def watched(self) -> list[tuple[int, int]]:
        """Address and number of bytes of each allocation that is checked for races."""
        return [(area.start, area.end - area.start) for area in self._areas]

    @property
    def watched_cells(self) -> int:
        """Number of cells that cover the checked global memory."""
        return sum(self._cells_of(area) for area in self._areas)

    def _cells_of(self, area: Area) -> int:
        return int(-(-(area.end - area.start) // (1 << self._common.shift)))

    def touched(self, into: npt.NDArray[np.uint8]) -> None:
        """Write into `into` how this launch has accessed each cell of global memory.

        The value of a cell is 0 if it was not accessed, 1 if it was only read, and 2 if it was
        written.
        """
        for area in self._areas:
            cells = self._cells_of(area)
            part, into = into[:cells], into[cells:]
            clock = self._common.clock
            self._native.race_touched(area.cells, cells, clock, part.ctypes.data)

    def end(self) -> None:
        """End race detection of this launch; set the logical time at which the next one begins."""
        latest = max((clocks.latest for clocks in self._clocks), default=self._common.clock)
        self._history.leave(latest + 1)

    def findings(self, sites: Sequence[Access]) -> Iterator[Finding]:
        """Yield one finding for each pair of memory accesses in the source that were found to race.

        Args:
            sites: The accesses of the program, in the order of `BlockCompiler.sites`.
        """
        events = self._events[: self._log.count]
        return findings_of(events, sites, self._kernel, self._placement)


def _stored_to(traits: Traits, memory: Memory, arguments: bytes) -> list[Allocation]:
    """Return the live allocations that the kernel may store to, sorted by address."""
    found: dict[int, Allocation] = {}
    for kind, value in traits.stored_through:
        if (kind, value) == ANYWHERE:
            return memory.live()
        address = value
        if kind == "argument":
            address = int.from_bytes(arguments[value : value + 8], "little")
        # A pointer may lie before its array, if the kernel adds an index to it later.
        allocation = memory.nearest(address) if memory.contains(address) else None
        if allocation and allocation.is_live:
            found[allocation.start] = allocation
    return [found[start] for start in sorted(found)]
