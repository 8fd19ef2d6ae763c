"""The interface by which actions report agents, arrivals and waits to race detection.

An agent is the unit that accesses memory for a thread: the thread itself, or an asynchronous unit
such as the copies that one mbarrier counts. sanitizer/agents.py implements the interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.int64]

_ATOMIC = 3


@dataclass(frozen=True, slots=True)
class Agent:
    """The unit that does an access, as `sim_actor` in race.h describes it.

    Attributes:
        number: The agent's number in its block; 0xFFFF is the thread, 0xFFFE copies that it waits
            for by itself.
        clock: The agent's clock at the access.
        how: The kind of access: 0 is plain, 3 is atomic.
    """

    number: int
    clock: int = 0
    how: int = 0

    @property
    def is_asynchronous(self) -> bool:
        """True if its accesses may continue after the instruction that starts them."""
        return self.number != THREAD.number


THREAD = Agent(0xFFFF)
"""The thread itself, synchronously."""
ATOMIC = Agent(0xFFFF, how=_ATOMIC)
"""The thread itself, synchronously, by an atomic operation."""
COPIES = Agent(0xFFFE)
"""Asynchronous copies that their own thread waits for, without an mbarrier."""


class Ordering(Protocol):
    """The receiver of the events that order threads and asynchronous agents.

    The number of a block in the chunk and an address in its shared memory identify an mbarrier.
    `lanes` are threads of one block.
    """

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Record an arrival of threads at an mbarrier.

        Threads that wait for this phase are ordered after everything that the arriving threads did
        or saw before.
        """

    def completed(self, block: int, barrier: int) -> None:
        """Record that the mbarrier's phase is complete."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Record that the threads have seen the completion of the last phase."""

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Return the agent of the copies that the mbarrier's current phase counts."""

    def multiplied(self, lanes: Lanes) -> Agent:
        """Record the start of a warpgroup's wgmma, and return the agent that reads its matrices."""

    def committed(self, lanes: Lanes) -> None:
        """Record that the threads close a group of wgmmas."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Record a wait for all groups of wgmmas except the latest `groups_left`."""


class Unordered:
    """The `Ordering` of a launch without race detection, which ignores all events."""

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Do nothing."""

    def completed(self, block: int, barrier: int) -> None:
        """Do nothing."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Do nothing."""

    def counted_by(self, block: int, barrier: int) -> Agent:  # noqa: ARG002 - as in Ordering
        """Return an asynchronous agent, so that the copies are still pending until a wait."""
        return COPIES

    def multiplied(self, lanes: Lanes) -> Agent:  # noqa: ARG002 - as in Ordering
        """Return an asynchronous agent."""
        return COPIES

    def committed(self, lanes: Lanes) -> None:
        """Do nothing."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Do nothing."""
