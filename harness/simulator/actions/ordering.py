"""The interface by which actions report agents, arrivals and waits to race detection.

An agent is a unit that accesses memory: a thread, or an asynchronous unit such as the copies that
one mbarrier counts. sanitizer/agents.py implements the interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.int64]

_ATOMIC = 7


@dataclass(frozen=True, slots=True)
class Agent:
    """The unit that makes a memory access, as `sim_actor` in race.h describes it.

    Attributes:
        number: The agent's number in its block. 0xFFFF is the thread that executes the instruction;
            0xFFFE means copies that this thread itself waits for.
        clock: The agent's clock at the access. It counts the phases of an mbarrier, or a
            warpgroup's groups of `wgmma` instructions.
        how: The kind of access: 0 is plain, 7 is atomic for the whole device.
    """

    number: int
    clock: int = 0
    how: int = 0

    @property
    def is_asynchronous(self) -> bool:
        """True if the agent's accesses may continue after the instruction that starts them."""
        return self.number != THREAD.number


THREAD = Agent(0xFFFF)
"""The thread itself, synchronously."""
ATOMIC = Agent(0xFFFF, how=_ATOMIC)
"""The thread itself, synchronously, by an atomic operation."""
COPIES = Agent(0xFFFE)
"""Asynchronous copies that their own thread waits for, without an mbarrier."""


class Ordering(Protocol):
    """The receiver of the events that order the accesses of threads and asynchronous agents.

    An mbarrier is identified by the number of its block in the chunk (the blocks that run together)
    and by its address in shared memory. `lanes` are numbers of threads of one block.
    """

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Record that threads arrive at an mbarrier.

        A later wait for the mbarrier's current phase is ordered after these arrivals. The wait is
        therefore also ordered after every access that is ordered before an arrival.
        """

    def completed(self, block: int, barrier: int) -> None:
        """Record that the current phase of an mbarrier is complete."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Record that threads have seen that the last phase of an mbarrier is complete."""

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Return the agent for the copies that an mbarrier counts in its current phase."""

    def multiplied(self, lanes: Lanes) -> Agent:
        """Record that a warpgroup starts a `wgmma`; return the agent that reads its matrices."""

    def committed(self, lanes: Lanes) -> None:
        """Record that threads close a group of `wgmma` instructions."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Record that threads wait for all groups of `wgmma` except the latest `groups_left`."""


class Unordered:
    """The `Ordering` of a launch without race detection, which ignores all events."""

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Do nothing."""

    def completed(self, block: int, barrier: int) -> None:
        """Do nothing."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Do nothing."""

    def counted_by(self, block: int, barrier: int) -> Agent:  # noqa: ARG002 - as in Ordering
        """Return an asynchronous agent, so that the copies stay unfinished until a wait."""
        return COPIES

    def multiplied(self, lanes: Lanes) -> Agent:  # noqa: ARG002 - as in Ordering
        """Return an asynchronous agent for the warpgroup's reads."""
        return COPIES

    def committed(self, lanes: Lanes) -> None:
        """Do nothing."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Do nothing."""
