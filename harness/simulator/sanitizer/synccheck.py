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


@dataclass(frozen=True)
class Arrival:
    """The threads of a chunk at one barrier instruction.

    Attributes:
        barrier: The instruction.
        lanes: The threads that wait there, or have arrived and gone on.
        passed: The threads that have gone past it and ended.
    """

    barrier: Barrier
    lanes: Lanes
    passed: Lanes


Arrivals = Sequence[Arrival]


@dataclass(frozen=True)
class Wait:
    """Threads of a chunk that cannot continue.

    Attributes:
        location: The place in the source, or None if the PTX does not have it.
        lanes: The threads.
        where: What the threads do, in the present tense, such as "wait".
        more: Details for the message, followed by a space.
    """

    location: Location | None
    lanes: Lanes
    where: str
    more: str = ""

    @classmethod
    def at_barrier(cls, barrier: Barrier, lanes: Lanes) -> Wait:
        """Return the wait of threads at a barrier."""
        needed = f", which waits for {barrier.threads}," if barrier.threads else ""
        return cls(barrier.location, lanes, "wait", f"barrier {barrier.number}{needed} ")


def _place(location: Location | None) -> str:
    return f"{Path(location.file).name}:{location.line}" if location else "an unknown line"


class SyncChecks:
    """The findings about the barriers of one launch, at most one for each place and severity."""

    def __init__(self, kernel: str, placement: Placement) -> None:
        self._kernel = kernel
        self._placement = placement
        self._findings: dict[tuple[Location | None, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in the order of discovery."""
        return tuple(self._findings.values())

    def synchronised(self, arrivals: Arrivals, first_block: int, live: int) -> None:
        """Check the threads that go on together after waiting at one barrier.

        PTX and CUDA C++ differ here. PTX accepts that threads that have ended do not arrive, and
        that the warps of a block arrive at different instructions. CUDA C++ does not allow
        different instructions. It also does not allow that a thread goes past a barrier at which
        other threads of its warp wait. A barrier with a number of threads is for threads that
        execute different code, so it is checked only within each warp.

        Args:
            arrivals: The threads at each instruction of the barrier.
            first_block: Position of the chunk's first block in the order of blocks.
            live: How many lanes of the chunk were started.
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
        """Report warps of which some threads wait at a barrier and others have ended past it.

        Args:
            barrier: The barrier.
            waiting: (blocks, threads), the threads that wait.
            passed: (blocks, threads), the threads that have ended past the barrier.
            first_block: Position of the chunk's first block in the order of blocks.
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
        """Report blocks whose threads wait for one barrier at different places in the source."""
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
            waits: The waiting threads of the chunk.
            block: Position of the block in the order of blocks.
            here: The lanes of the block.
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
        """Add a finding, unless its place already has one of this severity."""
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
    """Return the lanes of a block as (warps, 32), with absent lanes False."""
    padded = np.zeros(-(-len(lanes) // WARP) * WARP, np.bool_)
    padded[: len(lanes)] = lanes
    return padded.reshape(-1, WARP)
