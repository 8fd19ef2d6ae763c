"""The error for a launch whose threads wait forever, with the source line where each one waits."""

from __future__ import annotations

import numpy as np

from harness.simulator.execution.block_barriers import WaitingAtBarrier
from harness.simulator.execution.runnable import Lanes
from harness.simulator.execution.waiting import WaitingThreads
from harness.simulator.execution.warp_sync import WaitingForLanes
from harness.simulator.hardware.errors import BarrierDeadlock, UnmetCondition
from harness.simulator.hardware.team import Array
from harness.simulator.lowering.program import Access, Program
from harness.simulator.ptx.ptx import Location
from harness.simulator.sanitizer.synccheck import Wait

_AFTER_BARRIERS, _LAST = 1 << 20, 1 << 21
"""Sort keys of the places in the error message. Barriers come first and use their number."""


def deadlock_error(waiting: WaitingThreads) -> BarrierDeadlock | UnmetCondition:
    """Return the error for threads that wait forever; record it as a finding, too.

    The error lists the waiting threads of one block, with their source lines. The block is the
    first one with threads that have not ended. If threads wait at an action (an instruction such as
    an mbarrier wait), the error names only one action and the threads there.
    """
    if waiting.actions.parked:
        return _unmet_condition(waiting)
    number, here = _block_of(waiting, int(np.flatnonzero(waiting.threads.alive)[0]))
    report = _Report(here)
    for at_barrier in waiting.barriers.waiting:
        report.at_barrier(at_barrier)
    for for_lanes in waiting.warps.waiting:
        report.for_lanes(for_lanes)
    for position, lanes in waiting.spinning.parked.items():
        report.spinning(_place_of(waiting.program, position), lanes)
    first_block = waiting.team.first_block + number
    waiting.watch.sync.deadlocked(report.waits, first_block, here)
    block = waiting.watch.placement.block(first_block)
    who = tuple(text for _, text in sorted(report.places))
    return BarrierDeadlock(waiting.program.name, block, tuple(sorted(report.counts.items())), who)


class _Report:
    """A list of the waiting threads of one block.

    The slice `here` selects the block's threads among all threads that are simulated together.

    Attributes:
        waits: All waiting threads that are simulated together, for the finding.
        places: For each place where threads of the block wait: a sort key, and a text such as
            "3 threads at barrier 1, kernel.cu:12 (threads 0-2)".
        counts: Number of threads of the block at each barrier, by barrier number.
    """

    def __init__(self, here: slice) -> None:
        self._here = here
        self.waits: list[Wait] = []
        self.places: list[tuple[int, str]] = []
        self.counts: dict[int, int] = {}

    def at_barrier(self, waiting: WaitingAtBarrier) -> None:
        """Add the threads that wait at a barrier instruction."""
        number, location = waiting.barrier.number, waiting.barrier.location
        wait = Wait.at_barrier(waiting.barrier, waiting.lanes)
        if found := self._tell(wait, number, f"at barrier {number}{_at(', ', location)}"):
            self.counts[number] = self.counts.get(number, 0) + found

    def for_lanes(self, waiting: WaitingForLanes) -> None:
        """Add the threads that wait at a warp-level instruction for lanes of their warp."""
        sync = waiting.sync
        wait = Wait(sync.location, waiting.lanes, f"wait at {sync.name}")
        self._tell(wait, _AFTER_BARRIERS, f"at {sync.name}{_at(', ', sync.location)}")

    def spinning(self, location: Location | None, lanes: Lanes) -> None:
        """Add the threads `lanes`, which spin in a loop at `location`."""
        self._tell(Wait(location, lanes, "spin"), _LAST, f"spinning{_at(' at ', location)}")

    def _tell(self, wait: Wait, order: int, what: str) -> int:
        self.waits.append(wait)
        threads = np.flatnonzero(wait.lanes[self._here])
        if len(threads):
            noun = "thread" if len(threads) == 1 else "threads"
            who = f"{len(threads)} {noun} {what} (threads {_thread_list(threads)})"
            self.places.append((order, who))
        return len(threads)


def _unmet_condition(waiting: WaitingThreads) -> UnmetCondition:
    error, lanes = waiting.actions.unmet_condition(waiting.program)
    number, here = _block_of(waiting, int(np.argmax(lanes)))
    waits = [Wait(error.location, lanes, f"wait at `{error.instruction}`")]
    waits += [Wait.at_barrier(w.barrier, w.lanes) for w in waiting.barriers.waiting]
    waiting.watch.sync.deadlocked(waits, waiting.team.first_block + number, here)
    return error


def _block_of(waiting: WaitingThreads, lane: int) -> tuple[int, slice]:
    """Return the index of a thread's block, and the slice that selects the block's threads.

    `lane` is the thread's number. Blocks and threads are counted within the chunk (blocks that are
    simulated together).
    """
    threads = waiting.team.threads
    block = lane // threads
    return block, slice(block * threads, (block + 1) * threads)


def _place_of(program: Program, position: int) -> Location | None:
    """Return the source location of a spinning loop, or None if the PTX has no location.

    The loop starts at basic block `position`. A spinning loop usually polls memory. The result is
    therefore the location of the first memory access in four basic blocks: this one and the next
    three. If these blocks do not access memory, it is the location of their first instruction.
    """
    blocks = program.blocks[position : position + 4]
    steps = (step for block in blocks for step in block.steps)
    places = [step.location for step in steps if isinstance(step, Access)]
    places += [each.location for block in blocks for each in block.executed]
    return next((place for place in places if place), None)


def _at(before: str, location: Location | None) -> str:
    return f"{before}{location.file}:{location.line}" if location else ""


def _thread_list(threads: Array) -> str:
    """Format ascending thread numbers as at most eight ranges: "0-2, 7"."""
    numbers = [int(n) for n in threads]
    parts = []
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            first, last = numbers[start], numbers[i - 1]
            parts.append(f"{first}" if first == last else f"{first}-{last}")
            start = i
    return ", ".join(parts[:8]) + (", ..." if len(parts) > 8 else "")
