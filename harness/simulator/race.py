"""Races: what race.c is told before a launch, and what it found, as findings."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.simulator.frame import Placement
from harness.simulator.memory import Allocation, Memory
from harness.simulator.native import Native
from harness.simulator.program import Access
from harness.simulator.provenance import ANYWHERE, Traits
from harness.simulator.ptx import TYPE_BYTES
from harness.simulator.sanitizer import SEVERITIES, Finding
from harness.simulator.team import WARP

_EVENTS = 256
"""Pairs of places in one kernel's code that are told apart."""
_CELL_BYTES = 32
_MOST_CELLS = 1 << 26
"""2 GiB. What a launch writes beyond the 256 MiB that these stand for is not looked at."""
_KEPT_CELLS = 1 << 24
"""Cells that are not given back between launches."""
_LAST_CLOCK = 1 << 31

_POINTER, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64


class _Area(ctypes.Structure):
    """`sim_race_area`."""

    _fields_ = (("start", _U64), ("end", _U64), ("cells", _POINTER))


class _Event(ctypes.Structure):
    """`sim_race_event`."""

    _fields_ = (
        *((name, _U32) for name in ("site", "other_site", "thread", "other_thread")),
        ("kind", _U32),
        ("severity", _U32),
        ("address", _U64),
        ("count", _U64),
    )


class _Race(ctypes.Structure):
    """`sim_race`."""

    _fields_ = (
        *((name, _U32) for name in ("first_thread", "threads", "warps", "shift")),
        ("launch_clock", _U32),
        ("chunk_clock", _U32),
        *((name, _POINTER) for name in ("warp_of", "block_start", "now", "synced")),
        *((name, _POINTER) for name in ("floor", "apart", "seen")),
        ("released", _POINTER),
        ("acquired", _POINTER),
        ("shared", _POINTER),
        ("shared_cells", _U64),
        ("areas", _POINTER),
        ("area_count", _U64),
        ("events", _POINTER),
        ("event_count", _U32),
        ("event_limit", _U32),
    )


_READ_AFTER_WRITE = 0


@dataclass
class RaceHistory:
    """What one launch leaves to the next: the clock, and the cells, which need no clearing."""

    clock: int = 1
    cells: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros((0, 8), np.uint32))

    def take(self, count: int) -> npt.NDArray[np.uint32]:
        """At least `count` cells, none of which is younger than the clock."""
        if self.clock > _LAST_CLOCK:
            self.clock, self.cells = 1, self.cells[:0]
        if len(self.cells) < count:
            self.cells = np.zeros((count, _CELL_BYTES // 4), np.uint32)
        return self.cells

    def leave(self, clock: int) -> None:
        """The launch is over."""
        self.clock = clock
        if len(self.cells) > _KEPT_CELLS:
            self.cells = self.cells[:0]


class Races:
    """Looks for races in one launch."""

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
        self._has_stopped = False
        self._placement = placement
        self._lanes = lanes
        threads = placement.geometry.threads
        blocks = lanes // threads
        warps = -(-threads // WARP)
        unit = traits.access_bytes
        lane = np.arange(lanes, dtype=np.uint32)
        start = (lane // threads * warps).astype(np.uint32)
        self._warp_of = (start + lane % threads // WARP).astype(np.uint32)
        self._block_start = np.repeat(np.arange(blocks, dtype=np.uint32) * warps, warps)
        self._now, self._synced, self._floor, self._apart = (
            np.zeros(blocks * warps, np.uint32) for _ in range(4)
        )
        self._seen = np.zeros((blocks * warps, warps), np.uint32)
        self._acquired = np.zeros(blocks * warps, np.uint8)
        self._released = np.zeros(placement.geometry.blocks * warps, np.uint32)
        self._events = (_Event * _EVENTS)()
        shared_cells = -(-shared_bytes // unit)
        allocations = _stored_to(traits, memory, arguments)
        sizes = [-(-a.size // unit) for a in allocations]
        cells = history.take(min(blocks * shared_cells + sum(sizes), _MOST_CELLS))
        areas, used = [], blocks * shared_cells
        for allocation, size in zip(allocations, sizes, strict=True):
            if used + size <= len(cells):
                address = cells.ctypes.data + used * _CELL_BYTES
                areas.append(_Area(allocation.start, allocation.end, address))
                used += size
        self._areas = (_Area * len(areas))(*areas)
        self._cells = cells
        self._race = _Race(
            threads=threads,
            warps=warps,
            shift=unit.bit_length() - 1,
            launch_clock=history.clock,
            chunk_clock=history.clock,
            warp_of=self._warp_of.ctypes.data,
            block_start=self._block_start.ctypes.data,
            now=self._now.ctypes.data,
            synced=self._synced.ctypes.data,
            floor=self._floor.ctypes.data,
            apart=self._apart.ctypes.data,
            seen=self._seen.ctypes.data,
            released=self._released.ctypes.data if traits.has_fence else None,
            acquired=self._acquired.ctypes.data,
            shared=cells.ctypes.data,
            shared_cells=shared_cells,
            areas=ctypes.addressof(self._areas),
            area_count=len(areas),
            events=ctypes.addressof(self._events),
            event_limit=_EVENTS,
        )
        self.pointer = ctypes.addressof(self._race)

    @property
    def watched(self) -> list[tuple[int, int]]:
        """Address and bytes of each part of global memory that is looked at."""
        return [(area.start, area.end - area.start) for area in self._areas]

    @property
    def watched_cells(self) -> int:
        """Cells that stand for it."""
        return sum(self._cells_of(area) for area in self._areas)

    def _cells_of(self, area: _Area) -> int:
        unit = 1 << self._race.shift
        return int(-(-(area.end - area.start) // unit))

    def touched(self, into: npt.NDArray[np.uint8]) -> None:
        """Fills in, cell after cell of global memory, what this launch did: 1 read, 2 wrote."""
        for area in self._areas:
            cells = self._cells_of(area)
            part, into = into[:cells], into[cells:]
            self._native.race_touched(area.cells, cells, self._race.launch_clock, part.ctypes.data)

    def stop(self) -> None:
        """Looks no further; what was found stays."""
        self._has_stopped = True

    def begin(self, first_block: int) -> None:
        """The next chunk: its blocks start at `first_block` of the order in which they run."""
        if self._has_stopped:
            return
        clock = max(self._race.chunk_clock, int(self._now.max())) + 1
        self._race.chunk_clock = clock
        self._race.first_thread = first_block * self._placement.geometry.threads
        for clocks in (self._now, self._synced, self._floor, self._apart):
            clocks[...] = clock
        self._seen[...] = 0
        self._acquired[...] = 0

    def end(self) -> None:
        """The launch is over."""
        self._history.leave(max(self._race.chunk_clock, int(self._now.max())) + 1)

    def barrier(self, at: npt.NDArray[np.bool_] | None, *, whole: bool) -> None:
        """The threads `at` (all if None) have passed a barrier.

        With `whole` it orders all threads of their blocks, also those that have ended.
        """
        if self._has_stopped:
            return
        pointer = None if at is None else at.ctypes.data
        self._native.race_barrier(self.pointer, pointer, self._lanes, whole)

    def findings(self, sites: Sequence[Access]) -> Iterator[Finding]:
        """One for each two places in the source whose accesses race, the gravest of its kind."""
        gravest: dict[frozenset[str], _Event] = {}
        counts: dict[frozenset[str], int] = {}
        for event in self._events[: self._race.event_count]:
            both = (sites[event.site], sites[event.other_site])
            key = frozenset(f"{step.kind} {place_of(step)}" for step in both)
            counts[key] = counts.get(key, 0) + event.count
            if key not in gravest or event.severity > gravest[key].severity:
                gravest[key] = event
        for key, event in gravest.items():
            yield self._finding(event, sites, counts[key])

    def _finding(self, event: _Event, sites: Sequence[Access], count: int) -> Finding:
        step, thread = sites[event.site], event.thread
        other, other_thread = sites[event.other_site], event.other_thread
        line, other_line = (s.location.line if s.location else 0 for s in (step, other))
        # The store is told first: which of the two ran first means nothing.
        if event.kind == _READ_AFTER_WRITE or (event.kind != 1 and other_line < line):
            step, thread, other, other_thread = other, other_thread, step, thread
        threads = self._placement.geometry.threads
        block, in_block = divmod(thread, threads)
        other_block, other_in_block = divmod(other_thread, threads)
        who = f"thread {_triple(self._placement.thread(other_in_block))}"
        if block != other_block:
            who = f"block {_triple(self._placement.block(other_block))} {who}"
        width = TYPE_BYTES[step.type] * step.elements
        in_warp = _warp(thread, threads) == _warp(other_thread, threads)
        why = _why(event, in_warp=in_warp, in_block=block == other_block)
        return Finding(
            "racecheck",
            f"{width}-byte {step.kind}{_at(step)} races with the {other.kind}{_at(other)} "
            f"by {who}: {why}",
            self._kernel,
            step.location.file if step.location else None,
            step.location.line if step.location else None,
            self._placement.block(block),
            self._placement.thread(in_block),
            event.address,
            count,
            SEVERITIES[event.severity],
        )


def _why(event: _Event, *, in_warp: bool, in_block: bool) -> str:
    if event.severity == 0:
        return "both store the same value"
    if in_warp:
        return "no __syncwarp() between them"
    return "no barrier between them" if in_block else "nothing orders blocks within a kernel"


def _warp(thread: int, threads: int) -> tuple[int, int]:
    return thread // threads, thread % threads // WARP


def place_of(step: Access) -> str:
    """File and line, as short as messages have it; empty where the PTX does not tell."""
    return f"{Path(step.location.file).name}:{step.location.line}" if step.location else ""


def _at(step: Access) -> str:
    place = place_of(step)
    return f" at {place}" if place else ""


def _triple(numbers: Sequence[int]) -> str:
    return "(" + ",".join(map(str, numbers)) + ")"


def _stored_to(traits: Traits, memory: Memory, arguments: bytes) -> list[Allocation]:
    """The live allocations that the kernel may store to, by address."""
    found: dict[int, Allocation] = {}
    for kind, value in traits.stored_through:
        if (kind, value) == ANYWHERE:
            return memory.live()
        address = value
        if kind == "param":
            address = int.from_bytes(arguments[value : value + 8], "little")
        # A pointer may stand before the array that it is to be an index into.
        allocation = memory.nearest(address) if memory.contains(address) else None
        if allocation and allocation.is_live:
            found[allocation.start] = allocation
    return [found[start] for start in sorted(found)]
