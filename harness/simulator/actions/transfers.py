"""Asynchronous copies that no thread has waited for yet.

The data of a copy is already at the target. Until a thread has waited for the copy, reads of the
target return poison (a fixed pattern, NaN as float32). So a read whose result is undefined on a GPU
gives a wrong result here. All copies are finished when the kernel ends, at the latest.
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
    """The rows of memory that an asynchronous copy writes or reads; a row is a range of bytes.

    Attributes:
        space: The state space of the addresses.
        lanes: The thread that started the copy of each row.
        addresses: The address of the first byte of each row.
        nbytes: The length of a row in bytes.
        is_read: True if the rows are the source of the copy.
    """

    space: Space
    lanes: Lanes
    addresses: Array
    nbytes: int
    is_read: bool = False


class Waiting(Protocol):
    """Threads that wait for copies which they started."""

    @property
    def lanes(self) -> Lanes:
        """The threads' numbers in their chunk (the blocks that run together)."""

    def settle(self, transfer: Transfer) -> None:
        """Finish a copy after the threads that started it have waited for it."""


@dataclass
class _Started:
    """An asynchronous copy, and the rows of it that are unfinished.

    Attributes:
        transfer: The copy.
        groups: For each row, the number of its group. Each thread numbers its own groups.
        open: For each row, True until its copy is finished.
    """

    transfer: Transfer
    groups: Array
    open: Array


class GroupedCopies:
    """Unfinished copies in groups that threads close and wait for (`cp.async`, bulk stores).

    Each thread numbers its groups from 0. A copy belongs to the group that is open when the copy
    starts.

    Args:
        lanes: The number of threads.
    """

    def __init__(self, lanes: int) -> None:
        self._started: list[_Started] = []
        self._closed = np.zeros(lanes, np.int64)

    def start(self, transfer: Transfer) -> None:
        """Add a copy to the open group of each thread that started it."""
        groups = self._closed[transfer.lanes]
        self._started.append(_Started(transfer, groups, np.ones(len(groups), np.bool_)))

    def commit(self, lanes: Lanes) -> None:
        """Close the open group of each of the threads `lanes`."""
        self._closed[lanes] += 1

    def wait(self, waiting: Waiting, groups_left: int) -> None:
        """Finish all closed groups of the waiting threads except the latest `groups_left`."""
        limit = np.full(len(self._closed), -1)
        limit[waiting.lanes] = self._closed[waiting.lanes] - groups_left
        self._finish(waiting, limit)

    def wait_all(self, waiting: Waiting) -> None:
        """Finish every copy of the waiting threads, in closed groups and open ones."""
        limit = np.full(len(self._closed), -1)
        limit[waiting.lanes] = self._closed[waiting.lanes] + 1
        self._finish(waiting, limit)

    def _finish(self, waiting: Waiting, limit: Array) -> None:
        """Finish the copies of rows whose group has a number below `limit`.

        Args:
            waiting: The threads that wait.
            limit: For each thread, the number of the first group that stays unfinished.
        """
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
        """Remove and return the unfinished copies that the threads `lanes` started."""
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
        """Remove and yield all unfinished copies, and number the groups from 0 again."""
        started, self._started = self._started, []
        self._closed[...] = 0
        for one in started:
            yield part(one.transfer, one.open)


@dataclass(frozen=True)
class Delivery:
    """Copies that an mbarrier counts when they are finished.

    Attributes:
        transfers: The copies.
        nbytes: The bytes by which the mbarrier's tx-count decreases.
        arrivals: Number of arrivals that the mbarrier counts for the copies; 0 if it counts bytes.
    """

    transfers: tuple[Transfer, ...]
    nbytes: int
    arrivals: int


@dataclass
class BarrierDeliveries:
    """The unfinished copies that mbarriers count, by the mbarrier's block and shared address."""

    _started: dict[tuple[int, int], list[Delivery]] = field(default_factory=dict)

    def start(self, delivery: Delivery, block: int, barrier: int) -> None:
        """Add copies that the mbarrier of `block` at shared address `barrier` counts."""
        self._started.setdefault((block, barrier), []).append(delivery)

    def take(self, block: int, barrier: int) -> list[Delivery]:
        """Remove and return the copies that the mbarrier of `block` at address `barrier` counts."""
        return self._started.pop((block, barrier), [])

    def drain(self) -> Iterator[Transfer]:
        """Remove and yield the unfinished copies of all mbarriers."""
        started, self._started = self._started, {}
        for deliveries in started.values():
            for delivery in deliveries:
                yield from delivery.transfers


def part(transfer: Transfer, rows: Array) -> Transfer:
    """Return the part of a transfer that has only the rows that the array `rows` selects."""
    return replace(transfer, lanes=transfer.lanes[rows], addresses=transfer.addresses[rows])
