"""Synchronisation of the lanes of a warp by instructions with a mask, such as `__syncwarp`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.simulator.execution.runnable import Going
from harness.simulator.hardware.team import Array, Lanes, Team
from harness.simulator.lowering.program import WarpSync


@dataclass(frozen=True, slots=True)
class WaitingForLanes:
    """Threads that wait at a warp-level instruction for the lanes that their masks name.

    Attributes:
        sync: The instruction.
        block: Number of the basic block where the threads continue.
        lanes: The waiting threads, as a boolean array over the threads simulated together.
        masks: For each thread, the instruction's 32-bit mask of lanes.
    """

    sync: WarpSync
    block: int
    lanes: Lanes
    masks: Array

    @property
    def place(self) -> int:
        """A number that is equal for two instructions if lanes at them can wait for each other.

        Lanes at different `__syncwarp` instructions can wait for each other, so the number is -1
        for all of these. For any other instruction, the number is `block`.
        """
        return -1 if self.sync.is_anywhere else self.block


class WarpSynchronisation:
    """The threads of a chunk that wait for other lanes of their warp.

    A chunk is a number of thread blocks that are simulated together.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self.waiting: list[WaitingForLanes] = []

    def clear(self) -> None:
        """Remove all waiting threads, before the next blocks are simulated."""
        self.waiting = []

    def are_all_here(self, lanes: Lanes, masks: Array, alive: Lanes) -> bool:
        """Return True if no thread of `lanes` has to wait for other lanes of its warp.

        A thread need not wait if each lane that its mask names is in `lanes` or has ended (is not
        in `alive`).
        """
        here, living = self._team.mask_of_warp(lanes), self._team.mask_of_warp(alive)
        return not (lanes & ((masks & living & ~here) != 0)).any()

    def add(self, sync: WarpSync, block: int, lanes: Lanes, masks: Array) -> None:
        """Record threads that wait at a warp-level instruction for other lanes.

        Args:
            sync: The instruction.
            block: Number of the basic block where the threads continue.
            lanes: The threads, as a boolean array over the threads simulated together.
            masks: For each thread, the instruction's 32-bit mask of lanes.
        """
        for i, present in enumerate(self.waiting):
            if present.block == block:
                joined = np.where(lanes, masks, present.masks)
                self.waiting[i] = replace(present, lanes=present.lanes | lanes, masks=joined)
                return
        self.waiting.append(WaitingForLanes(sync, block, lanes, masks))

    def release(self, alive: Lanes) -> list[Going]:
        """Remove and return the threads whose masks name only lanes that have arrived or ended.

        Return pairs: the number of a basic block, and a mask of the threads that continue there.
        """
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
        """Remove and yield all waiting threads, because the lanes that are missing never arrive."""
        waiting, self.waiting = self.waiting, []
        yield from waiting
