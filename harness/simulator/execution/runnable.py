"""The runnable threads of a chunk (blocks simulated together), and where they continue.

Threads are added to `RunnableThreads` after a branch, and when they no longer have to wait, such as
at a complete barrier.
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
    """The threads of a chunk that do not wait, by the basic block where they continue.

    A chunk is a number of thread blocks that are simulated together. Threads are masks: boolean
    arrays with one element for each lane of the chunk.

    Attributes:
        lanes: Number of threads that the chunk has room for.
        ahead: Mask of the threads that run until all of them wait or have ended, before the others
            run; None for no such threads.
        started: Number of threads that the chunk has.
        alive: Mask of the threads that have not ended.
        at: Masks of the threads that can run a basic block, by the number of the basic block.
        exits: A counter that grows when threads end.
    """

    def __init__(self, lanes: int, ahead: Lanes | None = None) -> None:
        self.lanes = lanes
        self.ahead = ahead
        self.started = 0
        self.alive: Lanes = np.ones(lanes, np.bool_)
        self.at: dict[int, Lanes] = {}
        self.exits = 0

    def begin(self, started: int) -> Turn:
        """Start the next chunk (blocks that are simulated together) at the first basic block.

        Args:
            started: Number of threads of the chunk.

        Returns:
            The threads that run next: a basic block's number, a mask of the threads (None for all)
            and their number.
        """
        self.started = started
        self.alive = np.arange(self.lanes) < started
        self.at = {}
        if self.ahead is not None:
            self.at = {0: self.alive.copy()}
            return self.next()
        return 0, None if started == self.lanes else self.alive.copy(), started

    def all_of(self, current: Lanes | None) -> Lanes:
        """Return the mask `current`, or a mask of all simulated threads if it is None."""
        return np.ones(self.lanes, np.bool_) if current is None else current

    def add(self, position: int, lanes: Lanes) -> None:
        """Record that the threads `lanes` can continue at basic block `position`."""
        present = self.at.get(position)
        self.at[position] = lanes if present is None else present | lanes

    def go(self, target: int, current: Lanes | None, count: int) -> Turn:
        """Make the threads `current` runnable at basic block `target`; return the threads to run.

        The result has the form that `next` returns. It may contain other threads than `current`,
        because the threads at the lowest basic block run first.

        Args:
            target: Number of the basic block.
            current: Mask of the threads, or None for all threads that are simulated together.
            count: Number of those threads.
        """
        if not self.at or current is None:
            return target, current, count
        self.add(target, current)
        return self.next()

    def next(self) -> Turn:
        """Remove and return the threads that run next: those at the lowest basic block.

        The result is the basic block's number, a mask of the threads (None for all) and their
        number. The number of the basic block is None if no thread can run.
        """
        if not self.at:
            return _NOBODY
        # The threads at the lowest block of code run first. Compilers lay code out so that the
        # place where paths join comes after both paths. Diverged threads therefore meet there
        # again, without an analysis of the control flow graph.
        position, lanes = self._lowest()
        count = int(np.count_nonzero(lanes))
        return position, None if count == self.lanes else lanes, count

    def _lowest(self) -> Going:
        """Remove and return the threads at the lowest block.

        If threads that run ahead can run, these are the threads at their lowest block.
        """
        if self.ahead is not None:
            for position in sorted(self.at):
                lanes = self.at[position] & self.ahead
                if lanes.any():
                    rest = self.at.pop(position) & ~lanes
                    if rest.any():
                        self.at[position] = rest
                    return position, lanes
        position = min(self.at)
        return position, self.at.pop(position)

    def end(self, current: Lanes | None) -> None:
        """Mark the threads `current` (None for all simulated threads) as ended."""
        self.exits += 1
        self.alive = self.alive & ~self.all_of(current)
