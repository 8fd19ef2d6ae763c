"""Who is told of what the threads of a launch do: the checks that need it, and the counters."""

from __future__ import annotations

from dataclasses import dataclass

from harness.simulator.counters.counters import Counts
from harness.simulator.hardware.geometry import Placement
from harness.simulator.sanitizer.agents import Agents
from harness.simulator.sanitizer.clocks import Clocks
from harness.simulator.sanitizer.synccheck import Arrivals, Lanes, SyncChecks


@dataclass(frozen=True)
class Watch:
    """Who looks at the blocks that run together; None for those that are off."""

    placement: Placement
    sync: SyncChecks
    clocks: Clocks | None = None
    agents: Agents | None = None
    counts: Counts | None = None

    def begin(self, first_block: int) -> None:
        """The next chunk of blocks."""
        if self.clocks:
            self.clocks.begin(first_block)
        if self.agents:
            self.agents.begin()

    def executed(self, position: int, current: Lanes | None, count: int) -> None:
        """The threads `current` (all if None) have run a block of code."""
        if self.counts:
            self.counts.executed(position, current, count)

    def diverged(self, position: int, taking: Lanes, staying: Lanes) -> None:
        """The threads have not all gone the same way from the block's end."""
        if self.counts:
            self.counts.diverged(position, taking, staying)

    def passed(self, at: Lanes | None, *, whole: bool) -> None:
        """The threads `at` (all if None) have passed a barrier, the `whole` block's or not."""
        if self.clocks:
            self.clocks.barrier(at, whole=whole)

    def synchronised(self, arrivals: Arrivals, first_block: int, live: int) -> None:
        """Threads that came to a barrier one group after the other go on together."""
        self.sync.synchronised(arrivals, first_block, live)
        at = arrivals[0].lanes.copy()
        for arrival in arrivals[1:]:
            at |= arrival.lanes
        self.passed(at, whole=all(arrival.barrier.threads is None for arrival in arrivals))
