"""Where threads wait for each other: lanes of a warp, and threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.departures import Departures
from harness.simulator.hardware.team import Array, Lanes, Team
from harness.simulator.lowering.program import Barrier, Meet
from harness.simulator.sanitizer.synccheck import Arrival, Arrivals

Going = tuple[int, Lanes]
"""Block of code that lanes go on at."""


@dataclass(frozen=True, slots=True)
class WaitingAtBarrier:
    """Threads at a barrier, and where they go on."""

    barrier: Barrier
    block: int
    lanes: Lanes


@dataclass(frozen=True, slots=True)
class WaitingForLanes:
    """Threads at an instruction that needs the lanes in their masks, and where they go on."""

    meet: Meet
    block: int
    lanes: Lanes
    masks: Array

    @property
    def place(self) -> int:
        """Threads that wait at the same place meet."""
        return -1 if self.meet.is_anywhere else self.block


class Barriers:
    """The barriers of a chunk's blocks.

    A barrier is complete when as many threads as it asks for have arrived; where it names no
    number, when all threads of the block that have not ended have.
    """

    def __init__(self, team: Team, departures: Departures) -> None:
        self._team = team
        self._departures = departures
        self.waiting: list[WaitingAtBarrier] = []
        self._arrivals: dict[int, npt.NDArray[np.int64]] = {}
        """For each barrier and block, threads that arrived and went on."""
        self._gone_on: dict[int, Lanes] = {}
        """For each barrier, who they are, or some more."""

    def clear(self) -> None:
        """Forgets everybody."""
        self.waiting = []
        self._arrivals, self._gone_on = {}, {}

    def add(self, barrier: Barrier, block: int, lanes: Lanes) -> None:
        """Lanes have come to a barrier whose number and count are known."""
        if barrier.is_arrival:
            present = self._arrivals.get(barrier.number, 0)
            self._arrivals[barrier.number] = present + self._per_block(lanes)
            gone_on = self._gone_on.get(barrier.number)
            self._gone_on[barrier.number] = lanes if gone_on is None else gone_on | lanes
            # Somebody has to know how many the barrier asks for.
            lanes = np.zeros_like(lanes)
        self.waiting.append(WaitingAtBarrier(barrier, block, lanes))

    def release(self, alive: Lanes, tell: Callable[[Arrivals], None]) -> list[Going]:
        """The threads whose barriers are complete; they wait no longer.

        `tell` is called for each barrier with those who met there, also those who went on.
        """
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
        self._tell_who_met(complete, tell)
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

    def _tell_who_met(
        self, complete: dict[int, npt.NDArray[np.bool_]], tell: Callable[[Arrivals], None]
    ) -> None:
        for number, blocks in complete.items():
            released = np.repeat(blocks, self._team.threads)
            arrivals = [
                Arrival(
                    waiting.barrier,
                    waiting.lanes & released,
                    self._departures.have_passed(waiting.block - 1),
                )
                for waiting in self.waiting
                if waiting.barrier.number == number and not waiting.barrier.is_arrival
            ]
            arrivals = [arrival for arrival in arrivals if arrival.lanes.any()]
            gone_on = self._gone_on.get(number)
            if gone_on is not None and (met := gone_on & released).any():
                signal = next(w.barrier for w in self.waiting if w.barrier.number == number)
                nobody = np.zeros_like(met)
                arrivals.append(Arrival(replace(signal, is_arrival=True), met, nobody))
                self._gone_on[number] = gone_on & ~released
            if arrivals:
                tell(arrivals)

    def _per_block(self, lanes: Lanes) -> npt.NDArray[np.int64]:
        counts: npt.NDArray[np.int64] = lanes.reshape(-1, self._team.threads).sum(1)
        return counts


class Meetings:
    """The lanes of a chunk's warps that wait for other lanes."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.waiting: list[WaitingForLanes] = []

    def are_all_here(self, lanes: Lanes, masks: Array, alive: Lanes) -> bool:
        """Whether the lanes need nobody else."""
        here, living = self._team.mask_of_warp(lanes), self._team.mask_of_warp(alive)
        return not (lanes & ((masks & living & ~here) != 0)).any()

    def add(self, meet: Meet, block: int, lanes: Lanes, masks: Array) -> None:
        """Lanes have come to an instruction that needs others."""
        for i, present in enumerate(self.waiting):
            if present.block == block:
                joined = np.where(lanes, masks, present.masks)
                self.waiting[i] = replace(present, lanes=present.lanes | lanes, masks=joined)
                return
        self.waiting.append(WaitingForLanes(meet, block, lanes, masks))

    def release(self, alive: Lanes) -> list[Going]:
        """The threads that have met whom they need; they wait no longer."""
        living = self._team.mask_of_warp(alive)
        here: dict[int, Array] = {}
        for waiting in self.waiting:
            bits = self._team.mask_of_warp(waiting.lanes)
            here[waiting.place] = here.get(waiting.place, 0) | bits
        going: list[Going] = []
        staying = []
        for waiting in self.waiting:
            complete = (waiting.masks & living & ~here[waiting.place]) == 0
            if (gone := waiting.lanes & complete).any():
                going.append((waiting.block, gone))
            if (rest := waiting.lanes & ~complete).any():
                staying.append(replace(waiting, lanes=rest))
        self.waiting = staying
        return going

    def give_up(self) -> Iterator[WaitingForLanes]:
        """Everybody, to go on without whom they wait for."""
        waiting, self.waiting = self.waiting, []
        yield from waiting


def lane_list(threads: Array) -> str:
    """Numbers as ranges: "0-2, 7"."""
    numbers = [int(n) for n in threads]
    parts = []
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            first, last = numbers[start], numbers[i - 1]
            parts.append(f"{first}" if first == last else f"{first}-{last}")
            start = i
    return ", ".join(parts[:8]) + (", ..." if len(parts) > 8 else "")


def apart(
    barrier: Barrier, lanes: Lanes, numbers: Array | None, counts: Array | None
) -> list[tuple[Barrier, Lanes]]:
    """Lanes at a barrier whose number or count registers tell, by what these hold.

    `numbers` and `counts` have a value for each thread or one for all; None where the instruction
    itself tells.
    """
    each_number = np.full(lanes.shape, barrier.number)
    if numbers is not None:
        each_number[...] = numbers
    each_count = np.full(lanes.shape, -1 if barrier.threads is None else barrier.threads)
    if counts is not None:
        each_count[...] = counts
    pairs = set(zip(each_number[lanes].tolist(), each_count[lanes].tolist(), strict=True))
    return [
        (
            replace(barrier, number=number, threads=None if threads < 0 else threads),
            lanes & (each_number == number) & (each_count == threads),
        )
        for number, threads in sorted(pairs)
    ]
