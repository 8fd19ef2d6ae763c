"""Copies that have been started and are not finished.

Their data is where it is to go, but reads as poison until a thread has waited for it, so that what
is undefined on a GPU is wrong here. At the latest they are finished when the kernel ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.simulator.ptx.space import Space

Array = npt.NDArray[Any]
Lanes = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Transfer:
    """Rows of `nbytes` bytes that a copy writes or reads until somebody has waited for it.

    `lanes` are the threads that asked for it, one for each of the `addresses`.
    """

    space: Space
    lanes: Lanes
    addresses: Array
    nbytes: int
    is_read: bool = False


class Waiting(Protocol):
    """Threads that wait, and who is told that their copies are done."""

    @property
    def lanes(self) -> Lanes:
        """The threads."""

    def settle(self, transfer: Transfer) -> None:
        """The threads have waited for a copy of theirs."""


@dataclass
class _Started:
    """A copy, and for each of its rows the number of the thread's group that it is in."""

    transfer: Transfer
    groups: Array
    open: Array
    """Rows that are not finished."""


class GroupedCopies:
    """Copies in the groups of the threads that started them (`cp.async`, bulk stores).

    Args:
        lanes: how many threads there are.
    """

    def __init__(self, lanes: int) -> None:
        self._started: list[_Started] = []
        self._closed = np.zeros(lanes, np.int64)

    def start(self, transfer: Transfer) -> None:
        """Adds a copy to the threads' open groups."""
        groups = self._closed[transfer.lanes]
        self._started.append(_Started(transfer, groups, np.ones(len(groups), np.bool_)))

    def commit(self, lanes: Lanes) -> None:
        """Closes the threads' open groups."""
        self._closed[lanes] += 1

    def wait(self, waiting: Waiting, groups_left: int) -> None:
        """Finishes all closed groups of the threads but the latest `groups_left`."""
        limit = np.full(len(self._closed), -1)
        limit[waiting.lanes] = self._closed[waiting.lanes] - groups_left
        self._finish(waiting, limit)

    def wait_all(self, waiting: Waiting) -> None:
        """Finishes every copy of the threads."""
        limit = np.full(len(self._closed), -1)
        limit[waiting.lanes] = self._closed[waiting.lanes] + 1
        self._finish(waiting, limit)

    def _finish(self, waiting: Waiting, limit: Array) -> None:
        left = []
        for started in self._started:
            done = started.open & (started.groups < limit[started.transfer.lanes])
            if done.any():
                waiting.settle(part(started.transfer, done))
                started.open &= ~done
            if started.open.any():
                left.append(started)
        self._started = left

    def take(self, lanes: Lanes) -> tuple[Transfer, ...]:
        """Gives away what the threads have under way; it is in no group any more."""
        wanted = np.zeros(len(self._closed), np.bool_)
        wanted[lanes] = True
        taken, left = [], []
        for started in self._started:
            rows = started.open & wanted[started.transfer.lanes]
            if rows.any():
                taken.append(part(started.transfer, rows))
                started.open &= ~rows
            if started.open.any():
                left.append(started)
        self._started = left
        return tuple(taken)

    def drain(self) -> Iterator[Transfer]:
        """Gives away everything that is not finished."""
        started, self._started = self._started, []
        self._closed[...] = 0
        for one in started:
            yield part(one.transfer, one.open)


@dataclass(frozen=True)
class Delivery:
    """Copies that an mbarrier counts: in bytes, or by the arrivals of those who started them."""

    transfers: tuple[Transfer, ...]
    nbytes: int
    arrivals: int


@dataclass
class BarrierDeliveries:
    """Copies that an mbarrier counts: by block and the mbarrier's shared address."""

    _started: dict[tuple[int, int], list[Delivery]] = field(default_factory=dict)

    def start(self, delivery: Delivery, block: int, barrier: int) -> None:
        """Adds what the mbarrier at shared address `barrier` of the block counts."""
        self._started.setdefault((block, barrier), []).append(delivery)

    def take(self, block: int, barrier: int) -> list[Delivery]:
        """Gives away what the mbarrier waits for."""
        return self._started.pop((block, barrier), [])

    def drain(self) -> Iterator[Transfer]:
        """Gives away everything that is not finished."""
        started, self._started = self._started, {}
        for deliveries in started.values():
            for delivery in deliveries:
                yield from delivery.transfers


def part(transfer: Transfer, rows: Array) -> Transfer:
    """Some rows of a copy."""
    return replace(transfer, lanes=transfer.lanes[rows], addresses=transfer.addresses[rows])
