"""Who touches memory for a thread, and who has waited for whom, as race detection wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.int64]

_ATOMIC = 3


@dataclass(frozen=True, slots=True)
class Agent:
    """Who does an access: `number`, `clock` and `how` of `sim_actor` in race.h."""

    number: int
    clock: int = 0
    how: int = 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether it goes on after the instruction that starts it."""
        return self.number != THREAD.number


THREAD = Agent(0xFFFF)
"""The thread itself, at once."""
ATOMIC = Agent(0xFFFF, how=_ATOMIC)
"""The same, as an atomic operation."""
COPIES = Agent(0xFFFE)
"""Copies of a thread that it waits for by itself."""


class Ordering(Protocol):
    """What actions tell of who waits for whom.

    An mbarrier is named by its block in the chunk and its address in shared memory. `lanes` are
    threads of one block.
    """

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """The threads hand over, to whom waits for this phase, what they did and saw before."""

    def completed(self, block: int, barrier: int) -> None:
        """The mbarrier's phase is complete."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """The threads have seen that the last phase is complete."""

    def counted_by(self, block: int, barrier: int) -> Agent:
        """Who does copies that the mbarrier's phase counts."""

    def multiplied(self, lanes: Lanes) -> Agent:
        """A warpgroup starts a wgmma; who reads its matrices in shared memory."""

    def committed(self, lanes: Lanes) -> None:
        """The threads close a group of wgmmas."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """The threads have waited for all groups of wgmmas but the latest `groups_left`."""


class Unordered:
    """The ordering where nobody looks for races."""

    def arrived(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Nothing."""

    def completed(self, block: int, barrier: int) -> None:
        """Nothing."""

    def waited(self, block: int, barrier: int, lanes: Lanes) -> None:
        """Nothing."""

    def counted_by(self, block: int, barrier: int) -> Agent:  # noqa: ARG002 - as in Ordering
        """Some asynchronous agent."""
        return COPIES

    def multiplied(self, lanes: Lanes) -> Agent:  # noqa: ARG002 - as in Ordering
        """Some asynchronous agent."""
        return COPIES

    def committed(self, lanes: Lanes) -> None:
        """Nothing."""

    def drained(self, lanes: Lanes, groups_left: int) -> None:
        """Nothing."""
