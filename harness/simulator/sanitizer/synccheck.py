"""Checks of barriers: divergent barriers, threads that never arrive, and deadlocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.finding import Finding, Severity
from harness.simulator.hardware.geometry import WARP, Placement
from harness.simulator.lowering.program import Barrier
from harness.simulator.ptx.ptx import Location

Lanes = npt.NDArray[np.bool_]

_BARRIERS = 16
"""The number of barriers of a block."""


@dataclass(frozen=True)
class Arrival:
    """The threads at one barrier instruction when the barrier is complete.

    Attributes:
        barrier: The barrier instruction.
        lanes: Mask of the threads that wait at the instruction, or have arrived by `bar.arrive`.
            Masks have an element for each thread of the chunk (blocks simulated together).
        passed: Mask of the threads that have ended in code after the instruction.
    """

    barrier: Barrier
    lanes: Lanes
    passed: Lanes


Arrivals = Sequence[Arrival]


@dataclass(frozen=True)
class Wait:
    """Threads that cannot continue, for the message about a deadlock.

    Attributes:
        location: Source location where the threads wait, or None if the PTX does not have it.
        lanes: Mask of the threads over a chunk (blocks that are simulated together).
        where: Words of the message for what the threads do, such as "wait" or "spin".
        more: Details for the message, followed by a space; may be empty.
    """

    location: Location | None
    lanes: Lanes
    where: str
    more: str = ""

    @classmethod
    def at_barrier(cls, barrier: Barrier, lanes: Lanes) -> Wait:
        """Make a `Wait` for the threads `lanes`, which wait at a barrier of their block."""
        needed = f", which waits for {barrier.threads}," if barrier.threads else ""
        return cls(barrier.location, lanes, "wait", f"barrier {barrier.number}{needed} ")


def _place(location: Location | None) -> str:
    return f"{Path(location.file).name}:{location.line}" if location else "an unknown line"


class SyncChecks:
    """The checks of a launch's barriers, and their findings.

    A source location has at most one finding of each severity.
    """

    def __init__(self, kernel: str, placement: Placement) -> None:
        self._kernel = kernel
        self._placement = placement
        self._findings: dict[tuple[Location | None, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far, in order of discovery."""
        return tuple(self._findings.values())

    def arrived(self, barrier: Barrier, lanes: Lanes, first_block: int) -> None:
        """Check the number and the thread count of a barrier at which threads arrive.

        PTX has 16 barriers, and counts whole warps. An H100 reports "illegal instruction" for
        another count.

        Args:
            barrier: The barrier instruction, with the values of its operands.
            lanes: Mask of the arriving threads.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        count = barrier.threads
        if barrier.number >= _BARRIERS:
            message = f"barrier {barrier.number} does not exist: a block has {_BARRIERS}"
        elif count is not None and count % WARP:
            message = f"barrier {barrier.number} waits for {count} threads, not for whole warps"
        else:
            return
        block, lane = divmod(int(np.argmax(lanes)), self._placement.geometry.threads)
        self._add(barrier.location, "error", message, first_block + block, lane)

    def synchronised(self, arrivals: Arrivals, first_block: int, live: int) -> None:
        """Check a complete barrier for threads that use it in a way that CUDA C++ forbids.

        Two uses are reported as errors although PTX accepts them:

        - The threads of a block arrive at different barrier instructions. If the barrier has a
          thread count, only threads of one warp at different instructions are an error.
        - A thread skips a barrier at which other threads of its warp wait, runs code after the
          barrier, and ends.

        If other threads of the block have ended without reaching the barrier, they are reported
        with severity "info".

        Args:
            arrivals: The threads at each instruction of the barrier.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
            live: Number of threads that are simulated together.
        """
        arrivals = [arrival for arrival in arrivals if not arrival.barrier.is_arrival]
        if not arrivals:
            return
        threads = self._placement.geometry.threads
        blocks = live // threads
        rows = [arrival.lanes[:live].reshape(blocks, threads) for arrival in arrivals]
        if len(rows) > 1:
            self._different_instructions(arrivals, rows, first_block)
        arrived = np.logical_or.reduce(rows)
        missing = arrived.any(1) & ~arrived.all(1)
        barrier = arrivals[0].barrier
        if not missing.any() or barrier.threads is not None:
            return
        for arrival, row in zip(arrivals, rows, strict=True):
            passed = arrival.passed[:live].reshape(blocks, threads)
            self._gone_past(arrival.barrier, row, passed & ~arrived, first_block)
        block = int(np.argmax(missing))
        count = int(arrived[block].sum())
        self._add(
            barrier.location,
            "info",
            f"{count} of {threads} threads reach {_place(barrier.location)}: the others have ended",
            first_block + block,
            int(np.argmin(arrived[block])),
        )

    def _gone_past(self, barrier: Barrier, waiting: Lanes, passed: Lanes, first_block: int) -> None:
        """Report a warp if some of its threads wait at a barrier and others have ended after it.

        Only one warp of one block is reported.

        Args:
            barrier: The barrier instruction.
            waiting: Mask of the threads that wait, of shape (blocks, threads).
            passed: Mask of the threads that ended in code after the barrier, of shape (blocks,
                threads).
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        for block in np.flatnonzero(waiting.any(1) & passed.any(1)):
            warps = _warps(waiting[block]).any(1) & _warps(passed[block]).any(1)
            if not warps.any():
                continue
            here, gone = (
                int(np.argmax(_warps(lanes[block])[np.argmax(warps)]))
                + WARP * int(np.argmax(warps))
                for lanes in (waiting, passed)
            )
            self._add(
                barrier.location,
                "error",
                "divergent barrier: threads of one warp wait at "
                f"{_place(barrier.location)} while others have passed it and ended, such "
                f"as thread {self._placement.thread(gone)}",
                first_block + int(block),
                here,
            )
            return

    def _different_instructions(
        self, arrivals: Arrivals, rows: Sequence[Lanes], first_block: int
    ) -> None:
        """Report a block if its threads wait at barrier instructions of different source lines.

        Args:
            arrivals: The threads at each instruction of the barrier.
            rows: For each arrival, a mask of its threads, of shape (blocks, threads).
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        first, *rest = (row.any(1) for row in rows)
        for number, present in enumerate(rest, 1):
            both = first & present
            if not both.any():
                continue
            block = int(np.argmax(both))
            here, there = _warps(rows[0][block]), _warps(rows[number][block])
            shared = (here.any(1) & there.any(1)).any()
            barrier, other = arrivals[0].barrier, arrivals[number].barrier
            if barrier.threads is not None and not shared:
                continue
            if barrier.location == other.location:
                # The compiler has duplicated one barrier of the source.
                continue
            thread, other_thread = (int(np.argmax(rows[n][block])) for n in (0, number))
            what = "of one warp " if shared else ""
            self._add(
                barrier.location,
                "error",
                f"divergent barrier: threads {what}wait at {_place(barrier.location)} while others "
                f"wait at {_place(other.location)}, such as thread "
                f"{self._placement.thread(other_thread)}",
                first_block + block,
                thread,
            )

    def deadlocked(self, waits: Sequence[Wait], block: int, here: slice) -> Finding:
        """Report a block in which no thread can continue, and return the finding.

        Args:
            waits: The waiting threads; threads of other blocks are ignored.
            block: Index of the block in the order of execution.
            here: Slice that selects the block's threads in the masks of `waits`.
        """
        waits = [wait for wait in waits if wait.lanes[here].any()]
        groups = [self._group(wait, here) for wait in waits]
        ended = here.stop - here.start - sum(int(wait.lanes[here].sum()) for wait in waits)
        if ended:
            groups.append(f"{ended} have ended")
        lane = int(np.argmax(waits[0].lanes[here]))
        message = f"the block waits forever: {', '.join(groups)}"
        return self._add(waits[0].location, "error", message, block, lane)

    def _group(self, wait: Wait, here: slice) -> str:
        count = int(wait.lanes[here].sum())
        first = self._placement.thread(int(np.argmax(wait.lanes[here])))
        who = f"{count} threads {wait.where} at {_place(wait.location)}"
        return f"{who} ({wait.more}from thread {first} on)"

    def _add(
        self, location: Location | None, severity: Severity, message: str, block: int, lane: int
    ) -> Finding:
        """Add a finding, unless its source location already has a finding of the same severity.

        Return the new finding, or else the existing finding of that location and severity.

        Args:
            location: Source location, or None if it is unknown.
            severity: Severity of the finding.
            message: The message, in one line.
            block: Index of the block in the order of execution.
            lane: Index of the thread in the block, in the order of execution.
        """
        finding = Finding(
            "synccheck",
            message,
            self._kernel,
            location.file if location else None,
            location.line if location else None,
            self._placement.block(block),
            self._placement.thread(lane),
            0,
            1,
            severity,
        )
        return self._findings.setdefault((location, severity), finding)


def _warps(lanes: Lanes) -> Lanes:
    """Reshape a mask over the threads of a block to (warps, 32), and return it.

    If the last warp is incomplete, the elements without a thread are False.
    """
    padded = np.zeros(-(-len(lanes) // WARP) * WARP, np.bool_)
    padded[: len(lanes)] = lanes
    return padded.reshape(-1, WARP)
