"""Barriers of a thread block: `bar.sync` and related instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.runnable import Going
from harness.simulator.execution.thread_exits import ThreadExits
from harness.simulator.hardware.team import Array, Lanes, Team
from harness.simulator.lowering.program import Barrier
from harness.simulator.sanitizer.synccheck import Arrival, Arrivals


@dataclass(frozen=True, slots=True)
class WaitingAtBarrier:
    """Threads that wait at one barrier instruction.

    Attributes:
        barrier: The barrier instruction, with its barrier number and thread count.
        block: Number of the basic block where the threads continue.
        lanes: Mask of the threads; empty for `bar.arrive`, whose threads do not wait.
    """

    barrier: Barrier
    block: int
    lanes: Lanes


class BlockBarriers:
    """The barriers of the thread blocks of a chunk (blocks that are simulated together).

    A barrier is complete when enough threads of the block have arrived. If the instruction has a
    thread count, that number of threads is enough. Otherwise, all threads that have not ended must
    arrive.
    """

    def __init__(self, team: Team, exits: ThreadExits) -> None:
        self._team = team
        self._exits = exits
        self.waiting: list[WaitingAtBarrier] = []
        self._arrivals: dict[int, npt.NDArray[np.int64]] = {}
        """Number of threads that arrived without waiting, in each block, by barrier number."""
        self._gone_on: dict[int, Lanes] = {}
        """A superset of the threads counted in `_arrivals`, by barrier number."""

    def clear(self) -> None:
        """Remove all waiting threads and arrivals, before the next blocks are simulated."""
        self.waiting = []
        self._arrivals, self._gone_on = {}, {}

    def add(self, barrier: Barrier, block: int, lanes: Lanes) -> None:
        """Record the threads `lanes`, which have arrived at a barrier.

        The barrier's number and thread count must be constants (see `by_operands`). The threads
        continue at basic block `block`.
        """
        if barrier.is_arrival:
            present = self._arrivals.get(barrier.number, 0)
            self._arrivals[barrier.number] = present + self._per_block(lanes)
            gone_on = self._gone_on.get(barrier.number)
            self._gone_on[barrier.number] = lanes if gone_on is None else gone_on | lanes
            # The entry remains without lanes: it holds the thread count that the barrier asks for.
            lanes = np.zeros_like(lanes)
        self.waiting.append(WaitingAtBarrier(barrier, block, lanes))

    def release(self, alive: Lanes, tell: Callable[[Arrivals], None]) -> list[Going]:
        """Remove and return the waiting threads whose barriers are complete.

        The result has pairs of a basic block's number and a mask of the threads that continue
        there.

        Args:
            alive: The threads that have not ended.
            tell: A function that is called once for each barrier number that is complete in some
                block. Its argument has the threads that arrived, including threads at `bar.arrive`,
                which do not wait.
        """
        # A barrier is identified by its number, as in PTX, not by its instruction: threads at
        # different instructions with the same number meet. Whether CUDA C++ allows that is decided
        # in sanitizer/synccheck.py.
        needed: dict[int, int] = {}
        present = dict(self._arrivals)
        for waiting in self.waiting:
            number = waiting.barrier.number
            present[number] = present.get(number, 0) + self._per_block(waiting.lanes)
            if waiting.barrier.threads is not None:
                needed[number] = waiting.barrier.threads
        living = self._per_block(alive)
        complete = {
            number: (arrived > 0) & (arrived >= needed.get(number, living))
            for number, arrived in present.items()
        }
        self._tell_who_arrived(complete, tell)
        going: list[Going] = []
        staying: list[WaitingAtBarrier] = []
        for waiting in self.waiting:
            released = np.repeat(complete[waiting.barrier.number], self._team.threads)
            if (gone := waiting.lanes & released).any():
                going.append((waiting.block, gone))
            rest = waiting.lanes & ~released
            if rest.any() or (waiting.barrier.is_arrival and not released.all()):
                staying.append(replace(waiting, lanes=rest))
        self.waiting = staying
        for number in self._arrivals:
            self._arrivals[number] = np.where(complete[number], 0, self._arrivals[number])
        return going

    def _tell_who_arrived(
        self, complete: dict[int, npt.NDArray[np.bool_]], tell: Callable[[Arrivals], None]
    ) -> None:
        for number, blocks in complete.items():
            released = np.repeat(blocks, self._team.threads)
            arrivals = [
                Arrival(
                    waiting.barrier,
                    waiting.lanes & released,
                    self._exits.have_passed(waiting.block - 1),
                )
                for waiting in self.waiting
                if waiting.barrier.number == number and not waiting.barrier.is_arrival
            ]
            arrivals = [arrival for arrival in arrivals if arrival.lanes.any()]
            gone_on = self._gone_on.get(number)
            if gone_on is not None and (arrived := gone_on & released).any():
                signal = next(w.barrier for w in self.waiting if w.barrier.number == number)
                nobody = np.zeros_like(arrived)
                arrivals.append(Arrival(replace(signal, is_arrival=True), arrived, nobody))
                self._gone_on[number] = gone_on & ~released
            if arrivals:
                tell(arrivals)

    def _per_block(self, lanes: Lanes) -> npt.NDArray[np.int64]:
        counts: npt.NDArray[np.int64] = lanes.reshape(-1, self._team.threads).sum(1)
        return counts


def by_operands(
    barrier: Barrier, lanes: Lanes, numbers: Array | None, counts: Array | None
) -> list[tuple[Barrier, Lanes]]:
    """Group the threads at a barrier instruction by the values of its operands.

    The operands are a barrier number and a thread count, which may be in registers. Return, for
    each pair of values, the barrier with these values and a mask of the threads that use them.

    Args:
        barrier: The barrier instruction.
        lanes: Mask of the threads that have arrived at the instruction.
        numbers: Barrier numbers from a register, one for each thread or one for all; None if the
            instruction has a constant number.
        counts: Thread counts from a register, one for each thread or one for all; None if the
            instruction has a constant thread count or none.
    """
    each_number = np.full(lanes.shape, barrier.number)
    if numbers is not None:
        each_number[...] = numbers
    each_count = np.full(lanes.shape, -1 if barrier.threads is None else barrier.threads)
    if counts is not None:
        each_count[...] = counts
    # A count of 0 stands for all threads of the block.
    each_count[each_count == 0] = -1
    pairs = set(zip(each_number[lanes].tolist(), each_count[lanes].tolist(), strict=True))
    return [
        (
            replace(barrier, number=number, threads=None if threads < 0 else threads),
            lanes & (each_number == number) & (each_count == threads),
        )
        for number, threads in sorted(pairs)
    ]
