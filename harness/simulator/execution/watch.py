"""The observers of a launch's threads: the checks that follow the execution, and the counters."""

from __future__ import annotations

from dataclasses import dataclass

from harness.simulator.counters.counters import Counts
from harness.simulator.hardware.geometry import Placement
from harness.simulator.sanitizer.agents import Agents
from harness.simulator.sanitizer.clocks import Clocks
from harness.simulator.sanitizer.synccheck import Arrivals, Lanes, SyncChecks


@dataclass(frozen=True)
class Observers:
    """The observers of the blocks that run together; None for those that are off."""

    placement: Placement
    sync: SyncChecks
    clocks: Clocks | None = None
    agents: Agents | None = None
    counts: Counts | None = None

    def begin(self, first_block: int) -> None:
        """Start the next chunk of blocks."""
        if self.clocks:
            self.clocks.begin(first_block)
        if self.agents:
            self.agents.begin()

    def executed(self, position: int, current: Lanes | None, count: int) -> None:
        """Report that the threads `current` (all if None) have run a block of code."""
        if self.counts:
            self.counts.executed(position, current, count)

    def diverged(self, position: int, taking: Lanes, staying: Lanes) -> None:
        """Report that the threads have taken different ways at the end of the block."""
        if self.counts:
            self.counts.diverged(position, taking, staying)

    def passed(self, at: Lanes | None, *, whole: bool) -> None:
        """Report that the threads `at` (all if None) have passed a barrier.

        Args:
            at: The threads.
            whole: True if the barrier is the whole block's.
        """
        if self.clocks:
            self.clocks.barrier(at, whole=whole)

    def synchronised(self, arrivals: Arrivals, first_block: int, live: int) -> None:
        """Report that threads which arrived at a barrier in several groups continue together."""
        self.sync.synchronised(arrivals, first_block, live)
        at = arrivals[0].lanes.copy()
        for arrival in arrivals[1:]:
            at |= arrival.lanes
        self.passed(at, whole=all(arrival.barrier.threads is None for arrival in arrivals))
