"""The threads of a chunk that have not ended, and the places where runnable threads continue.

Everything that releases threads adds them here: branches, complete barriers, loops that try again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.bool_]
Turn = tuple[int | None, Lanes | None, int]
"""The threads that run next: the block of code, the threads (None for all) and their number.

The block of code is None if no thread can run.
"""
Going = tuple[int, Lanes]
"""A block of code, and the threads that continue there."""
_NOBODY: Turn = (None, None, 0)


class RunnableThreads:
    """The threads of one chunk that do not wait, by the block of code where they continue.

    Attributes:
        lanes: Lanes of the chunk.
        started: Lanes that have a thread.
        alive: The threads that have not ended.
        at: The runnable threads at each block of code.
        exits: A counter that grows when threads end.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.started = 0
        self.alive: Lanes = np.ones(lanes, np.bool_)
        self.at: dict[int, Lanes] = {}
        self.exits = 0

    def begin(self, started: int) -> Turn:
        """Start the next chunk: its first `started` lanes begin at the first block of code."""
        self.started = started
        self.alive = np.arange(self.lanes) < started
        self.at = {}
        return 0, None if started == self.lanes else self.alive.copy(), started

    def all_of(self, current: Lanes | None) -> Lanes:
        """Return the lanes as a mask."""
        return np.ones(self.lanes, np.bool_) if current is None else current

    def add(self, position: int, lanes: Lanes) -> None:
        """Add threads that can continue at a block of code."""
        present = self.at.get(position)
        self.at[position] = lanes if present is None else present | lanes

    def go(self, target: int, current: Lanes | None, count: int) -> Turn:
        """Continue the threads at `target`, unless others run first."""
        if not self.at or current is None:
            return target, current, count
        self.add(target, current)
        return self.next()

    def next(self) -> Turn:
        """Remove and return the threads that run next."""
        if not self.at:
            return _NOBODY
        # The threads at the lowest block of code run first. Compilers lay code out so that the
        # place where paths join comes after both paths. Diverged threads therefore meet there
        # again, without an analysis of the control flow graph.
        position = min(self.at)
        lanes = self.at.pop(position)
        count = int(np.count_nonzero(lanes))
        return position, None if count == self.lanes else lanes, count

    def end(self, current: Lanes | None) -> None:
        """End the threads."""
        self.exits += 1
        self.alive = self.alive & ~self.all_of(current)
