"""Which blocks are on the device together.

The rule: chunks of blocks start in order, each when the one before it has ended or waits for others
(its threads spin on what another block is to write). Blocks that wait stay resident, and others
start beside them, up to as many blocks as an H200 holds at a time; then no more start until one of
them ends. When none of the resident blocks gets on, the kernel is in a deadlock, as it would be on
the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.simulator.execution.faults import Faults
from harness.simulator.execution.frame import Frame, PrivateMemory
from harness.simulator.execution.scheduler import Scheduler
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.hardware.resources import occupancy

_ROUNDS_IN_VAIN = 3
_ROUNDS_ASLEEP = 20_000
"""Rounds without progress in which threads slept or read the clock: they may stop waiting."""


def blocks_at_once(threads: int, shared_bytes: int) -> int:
    """Blocks that the device holds at a time, as far as threads and shared memory tell."""
    held = occupancy(0, shared_bytes, threads, DEVICE.architecture).blocks
    return DEVICE.multi_processor_count * max(1, held)


@dataclass(frozen=True)
class Place:
    """Room for one chunk of blocks, and what runs it."""

    frame: Frame
    private: PrivateMemory
    faults: Faults
    scheduler: Scheduler


def run_chunks(
    chunks: Sequence[range],
    resident_blocks: int,
    make_place: Callable[[], Place],
    start: Callable[[Place, range], bool],
) -> list[Place]:
    """Runs all chunks to their end; returns the places that it took.

    Raises:
        BarrierDeadlock, UnmetCondition: the resident blocks wait for what cannot happen.
    """
    places: list[Place] = []
    free: list[Place] = []
    waiting: list[tuple[Place, range]] = []
    for chunk in chunks:
        while waiting and sum(len(c) for _, c in waiting) + len(chunk) > resident_blocks:
            free += _try_again(waiting)
        if not free:
            free.append(make_place())
            places.append(free[-1])
        place = free.pop()
        if start(place, chunk):
            free.append(place)
        else:
            waiting.append((place, chunk))
    while waiting:
        _try_again(waiting)
    return places


def _try_again(waiting: list[tuple[Place, range]]) -> list[Place]:
    """Lets the waiting chunks run in turns until some have ended, and gives their places back."""
    in_vain = asleep = 0
    while True:
        before = _total(waiting, "progress"), _total(waiting, "patience")
        ended = [entry for entry in waiting if entry[0].scheduler.resume()]
        if ended:
            waiting[:] = [entry for entry in waiting if entry not in ended]
            return [place for place, _ in ended]
        if _total(waiting, "progress") != before[0]:
            in_vain = asleep = 0
            continue
        if _total(waiting, "patience") != before[1]:
            asleep += 1
        else:
            in_vain += 1
        if in_vain >= _ROUNDS_IN_VAIN or asleep >= _ROUNDS_ASLEEP:
            if not any(place.scheduler.give_up() for place, _ in waiting):
                raise waiting[0][0].scheduler.deadlock()
            in_vain = asleep = 0


def _total(waiting: list[tuple[Place, range]], name: str) -> int:
    return sum(int(getattr(place.scheduler, name)) for place, _ in waiting)
