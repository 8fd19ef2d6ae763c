"""Synchronisation of the lanes of a warp: `__syncwarp` and the instructions with a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.simulator.execution.runnable import Going
from harness.simulator.hardware.team import Array, Lanes, Team
from harness.simulator.lowering.program import WarpSync


@dataclass(frozen=True, slots=True)
class WaitingForLanes:
    """Threads at an instruction that needs the lanes in their masks.

    Attributes:
        sync: The instruction.
        block: Block of code where the threads continue.
        lanes: The threads.
        masks: Mask of each thread.
    """

    sync: WarpSync
    block: int
    lanes: Lanes
    masks: Array

    @property
    def place(self) -> int:
        """Identifier of the place; threads that wait at the same place synchronise.

        All `__syncwarp` share one place.
        """
        return -1 if self.sync.is_anywhere else self.block


class WarpSynchronisation:
    """The lanes of a chunk's warps that wait for other lanes."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.waiting: list[WaitingForLanes] = []

    def clear(self) -> None:
        """Forget all waiting lanes."""
        self.waiting = []

    def are_all_here(self, lanes: Lanes, masks: Array, alive: Lanes) -> bool:
        """Return whether all lanes that the masks name, and that live, are among `lanes`."""
        here, living = self._team.mask_of_warp(lanes), self._team.mask_of_warp(alive)
        return not (lanes & ((masks & living & ~here) != 0)).any()

    def add(self, sync: WarpSync, block: int, lanes: Lanes, masks: Array) -> None:
        """Record lanes at an instruction that needs other lanes."""
        for i, present in enumerate(self.waiting):
            if present.block == block:
                joined = np.where(lanes, masks, present.masks)
                self.waiting[i] = replace(present, lanes=present.lanes | lanes, masks=joined)
                return
        self.waiting.append(WaitingForLanes(sync, block, lanes, masks))

    def release(self, alive: Lanes) -> list[Going]:
        """Remove and return the threads whose lanes have all arrived."""
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
        """Remove and yield all waiting threads, which continue without the missing lanes."""
        waiting, self.waiting = self.waiting, []
        yield from waiting
