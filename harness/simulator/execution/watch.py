"""The observers of a launch, which are told what the threads execute: checks and counters."""

from __future__ import annotations

from dataclasses import dataclass

from harness.simulator.counters.counters import Counts
from harness.simulator.hardware.geometry import Placement
from harness.simulator.lowering.program import Barrier
from harness.simulator.sanitizer.agents import Agents
from harness.simulator.sanitizer.clocks import Clocks
from harness.simulator.sanitizer.synccheck import Arrivals, Lanes, SyncChecks


@dataclass(frozen=True)
class Observers:
    """The checks and counters that are told what the threads of a chunk execute.

    A chunk is a number of blocks that are simulated together.

    Attributes:
        placement: Order of the launch's blocks and threads.
        sync: Checks of barriers.
        clocks: Vector clocks of race detection, or None if race detection is off.
        agents: Race detection's record of mbarriers and wgmmas, or None if race detection is off.
        counts: Counters of traffic and instructions, or None if they are switched off.
    """

    placement: Placement
    sync: SyncChecks
    clocks: Clocks | None = None
    agents: Agents | None = None
    counts: Counts | None = None

    def begin(self, first_block: int) -> None:
        """Tell race detection that the simulation of the next blocks begins.

        Args:
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        if self.clocks:
            self.clocks.begin(first_block)
        if self.agents:
            self.agents.begin()

    def executed(self, position: int, current: Lanes | None, count: int) -> None:
        """Tell the counters that threads have run a basic block.

        Args:
            position: Number of the basic block.
            current: Mask of the threads, or None for all threads that are simulated together.
            count: Number of those threads.
        """
        if self.counts:
            self.counts.executed(position, current, count)

    def diverged(self, position: int, taking: Lanes, staying: Lanes) -> None:
        """Tell the counters that threads have diverged at the branch of a basic block.

        Args:
            position: Number of the basic block.
            taking: Mask of the threads that took the branch.
            staying: Mask of the threads that did not.
        """
        if self.counts:
            self.counts.diverged(position, taking, staying)

    def passed(self, at: Lanes | None, *, whole: bool) -> None:
        """Tell race detection that threads have passed a barrier.

        Args:
            at: Mask of the threads, or None for all threads that are simulated together.
            whole: True if the barrier synchronises all threads of a block, and not a given number.
        """
        if self.clocks:
            self.clocks.barrier(at, whole=whole)

    def arrived(self, barrier: Barrier, lanes: Lanes, first_block: int) -> None:
        """Tell the barrier checks that threads arrive at a barrier, before it is complete.

        Args:
            barrier: The barrier, with its number and thread count.
            lanes: Mask of the threads.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        self.sync.arrived(barrier, lanes, first_block)

    def synchronised(self, arrivals: Arrivals, first_block: int, live: int) -> None:
        """Tell the barrier checks and race detection that a barrier is complete.

        Args:
            arrivals: The threads at each instruction of the barrier.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
            live: Number of threads that are simulated together.
        """
        self.sync.synchronised(arrivals, first_block, live)
        at = arrivals[0].lanes.copy()
        for arrival in arrivals[1:]:
            at |= arrival.lanes
        self.passed(at, whole=all(arrival.barrier.threads is None for arrival in arrivals))
