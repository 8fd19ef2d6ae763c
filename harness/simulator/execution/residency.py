"""Residency of thread blocks: decides which blocks are on the simulated device at the same time.

A chunk is a number of blocks that are simulated together. Chunks start in order. The next chunk
starts when the present chunk has ended or can only wait until another chunk writes a value. Waiting
chunks stay resident. When as many blocks are resident as an H200 holds, no further chunk starts
until a resident chunk has ended. If no resident block makes progress, the kernel is deadlocked, as
it would be on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.simulator.execution.faults import Faults
from harness.simulator.execution.frame import ChunkMemory, Frame
from harness.simulator.execution.scheduler import Scheduler
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.hardware.resources import occupancy

_ROUNDS_IN_VAIN = 3
_ROUNDS_ASLEEP = 20_000
"""Rounds without progress in which threads slept or read the clock.

Such threads may stop waiting by themselves, so they get many more rounds than others.
"""


def blocks_at_once(threads: int, shared_bytes: int, registers: int) -> int:
    """Return how many blocks are resident on the device at a time.

    Args:
        threads: Threads of a block.
        shared_bytes: Bytes of a block's shared memory.
        registers: Registers of a thread.
    """
    held = occupancy(registers, shared_bytes, threads, DEVICE.architecture).blocks
    return DEVICE.multi_processor_count * max(1, held)


@dataclass(frozen=True)
class ChunkSlot:
    """Registers, memory, fault collector and scheduler for one chunk.

    A chunk is a number of blocks that are simulated together. When a chunk has ended, another chunk
    can use its slot.
    """

    frame: Frame
    private: ChunkMemory
    faults: Faults
    scheduler: Scheduler


def run_chunks(
    chunks: Sequence[range],
    resident_blocks: Callable[[], int],
    make_place: Callable[[], ChunkSlot],
    start: Callable[[ChunkSlot, range], bool],
) -> list[ChunkSlot]:
    """Run all chunks (blocks that are simulated together) of a launch to their end.

    Return the slots in which the chunks ran.

    Args:
        chunks: Each chunk's blocks, as indices in the order of execution.
        resident_blocks: Returns the number of blocks that fit on the device at a time. It is called
            only if more blocks than multiprocessors are under way, because it may run ptxas.
        make_place: Makes a slot, in which a chunk can run.
        start: Starts a chunk in a slot; returns True if all of its threads have ended, and False if
            the chunk waits for other chunks.

    Raises:
        BarrierDeadlock, UnmetCondition: The resident blocks wait for an event that cannot happen.
    """
    places: list[ChunkSlot] = []
    free: list[ChunkSlot] = []
    waiting: list[tuple[ChunkSlot, range]] = []
    for chunk in chunks:
        while waiting and _are_too_many(_blocks(waiting) + len(chunk), resident_blocks):
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


def _blocks(waiting: Sequence[tuple[ChunkSlot, range]]) -> int:
    return sum(len(chunk) for _, chunk in waiting)


def _are_too_many(blocks: int, resident_blocks: Callable[[], int]) -> bool:
    # At least one block fits on a multiprocessor.
    return blocks > DEVICE.multi_processor_count and blocks > resident_blocks()


def _try_again(waiting: list[tuple[ChunkSlot, range]]) -> list[ChunkSlot]:
    """Run the waiting chunks (blocks simulated together) in turn until some of them have ended.

    Remove the chunks that have ended from `waiting`, and return their slots.

    Raises:
        BarrierDeadlock, UnmetCondition: The waiting chunks make no progress.
    """
    in_vain = asleep = 0
    while True:
        # Each round resumes every waiting chunk once. Rounds without progress are counted. Those in
        # which threads slept or read the clock are counted apart, with a higher limit.
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


def _total(waiting: list[tuple[ChunkSlot, range]], name: str) -> int:
    return sum(int(getattr(place.scheduler, name)) for place, _ in waiting)
