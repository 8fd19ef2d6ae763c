"""Which threads of a chunk have not ended, and where those go on that can.

Apart from the scheduler, because everything that lets threads go on comes here: branches, barriers
that are complete, loops that try again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.bool_]
Turn = tuple[int | None, Lanes | None, int]
"""Who runs next: the block of code, the threads (None: all) and how many.

There is no block where nobody can go on.
"""
Going = tuple[int, Lanes]
"""A block of code, and threads that go on there."""
_NOBODY: Turn = (None, None, 0)


class RunnableThreads:
    """The threads of one chunk that do not wait, by the block of code where they go on.

    Those at the lowest block go first. So threads that have diverged converge where their paths
    join, because compilers lay the code out in that order.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.started = 0
        """Lanes of the chunk that are threads."""
        self.alive: Lanes = np.ones(lanes, np.bool_)
        self.at: dict[int, Lanes] = {}
        self.exits = 0
        """Grows when threads end."""

    def begin(self, started: int) -> Turn:
        """The next chunk of blocks: its first lanes start at the first block of code."""
        self.started = started
        self.alive = np.arange(self.lanes) < started
        self.at = {}
        return 0, None if started == self.lanes else self.alive.copy(), started

    def all_of(self, current: Lanes | None) -> Lanes:
        """The lanes as a mask."""
        return np.ones(self.lanes, np.bool_) if current is None else current

    def add(self, position: int, lanes: Lanes) -> None:
        """Threads can go on at a block of code."""
        present = self.at.get(position)
        self.at[position] = lanes if present is None else present | lanes

    def go(self, target: int, current: Lanes | None, count: int) -> Turn:
        """The threads go on at `target`, unless others are to go first."""
        if not self.at or current is None:
            return target, current, count
        self.add(target, current)
        return self.next()

    def next(self) -> Turn:
        """The threads that run next, which are taken out."""
        if not self.at:
            return _NOBODY
        position = min(self.at)
        lanes = self.at.pop(position)
        count = int(np.count_nonzero(lanes))
        return position, None if count == self.lanes else lanes, count

    def end(self, current: Lanes | None) -> None:
        """The threads have ended."""
        self.exits += 1
        self.alive = self.alive & ~self.all_of(current)
