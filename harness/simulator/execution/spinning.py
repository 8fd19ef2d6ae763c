"""Detection of threads that spin: they wait in a loop for a value that another thread writes.

A thread spins if it returns to a basic block, and nothing has changed since its last visit. That
is, its live registers have the same values, and no store or atomic has changed memory. A spinning
thread cannot leave the loop by itself, so it is parked until other threads have run.

A loop whose registers change in each round is not detected, for example a loop that counts its
attempts. After many rounds, such a loop is interrupted so that other threads can run. The rounds
cost time, but do not change results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.simulator.hardware.team import Array, Lanes, Team

_FIRST_LOOK = 64
"""Backward jumps before the first look."""
_LONGEST_WAIT = 512
"""Most backward jumps between two looks."""
_PATIENCE = 2048
"""Backward jumps after which any loop gives way to other threads of the chunk."""
_PATIENCE_ALONE = 1 << 16
"""Additional backward jumps if no other thread of the chunk can run: other chunks may have to."""
_NAP = 100
"""Cycles that the clock advances when all threads sleep or spin."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The state of threads that jumped back to a basic block, for comparison with the next jump.

    Attributes:
        lanes: Mask of the threads.
        values: Values of each live register.
        progress: Value of the scheduler's progress counter at the jump.
    """

    lanes: Lanes
    values: list[Array]
    progress: int


class Spinning:
    """Detection of spinning threads in one chunk (blocks that are simulated together).

    Attributes:
        changes: A counter that grows when a watched loop has changed its registers, and when a loop
            is interrupted. Other code increments it when an action (such as `mma.sync`) has run.
        yields: Number of times that threads have slept.
        parked: Masks of the threads that sleep, spin or were interrupted, by the number of the
            basic block where they continue.
        watched: The watched basic blocks, by number. Each jump back to a watched block is examined.
            The value is a snapshot of the threads that last jumped back to the block, or None if
            threads were just found spinning there.
        backs: Number of backward jumps so far.
        due: Value of `backs` at which the next jump to any basic block is examined.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self.changes = 0
        self.yields = 0
        self.clear()

    def clear(self) -> None:
        """Remove all watched loops and parked threads, before the next blocks are simulated."""
        self.parked: dict[int, Lanes] = {}
        self.watched: dict[int, _Snapshot | None] = {}
        self.backs = 0
        self.due = _FIRST_LOOK
        self._interval = _FIRST_LOOK
        self._patience_ends = _PATIENCE
        self._spun_at: set[int] = set()
        self._last_try: int | None = None

    def look(
        self,
        position: int,
        lanes: Lanes,
        values: Sequence[Array],
        progress: int,
        *,
        has_others: bool,
    ) -> Lanes | None:
        """Examine threads that have jumped back to a basic block; park the threads that spin.

        After many backward jumps all threads `lanes` are parked, even if they do not spin.

        Args:
            position: Number of the basic block.
            lanes: Mask of the threads.
            values: Values of each register that is live at the start of the basic block.
            progress: The scheduler's progress counter.
            has_others: True if other threads that are simulated together can run.

        Returns:
            A mask of the parked threads, or None if all threads continue.
        """
        # Comparing all live registers at each backward jump would be slow. A snapshot is therefore
        # taken only at a look, and the next arrival at the same place is compared with it. The
        # interval between looks doubles up to a limit, so loops that compute cost little.
        known = self.watched.pop(position, None)
        if known and known.progress == progress:
            same = known.lanes & lanes
            for before, now in zip(known.values, values, strict=True):
                same = same & (before == now)
            if same.any():
                self._spun_at.add(position)
                self.watched[position] = None
                self._park(position, same)
                return same
            self.changes += 1
        # A place that was watched without success is dropped, so that the next look can watch
        # another place.
        is_old = known is not None and position not in self._spun_at
        if not is_old:
            self.watched[position] = _Snapshot(lanes, [v.copy() for v in values], progress)
        self._interval = min(2 * self._interval, _LONGEST_WAIT)
        self.due = self.backs + self._interval
        if self.backs < self._patience_ends + (0 if has_others else _PATIENCE_ALONE):
            return None
        self._patience_ends = self.backs + _PATIENCE
        self.changes += 1
        self._park(position, lanes)
        return lanes

    def sleep(self, position: int, lanes: Lanes) -> None:
        """Park threads that execute `nanosleep`; they continue later at basic block `position`."""
        self.yields += 1
        self._park(position, lanes)

    def tried_in_vain(self, progress: int) -> bool:
        """Return True if the progress counter has not changed since the last `release`."""
        return self._last_try == progress

    def release(self, progress: int, add: Callable[[int, Lanes], None]) -> None:
        """Release all parked threads, and advance the clock that the threads can read.

        Args:
            progress: The scheduler's progress counter.
            add: Called with a basic block and the threads that continue there.
        """
        self._last_try = progress
        self._team.waited += _NAP
        parked, self.parked = self.parked, {}
        for position, lanes in parked.items():
            add(position, lanes)

    def _park(self, position: int, lanes: Lanes) -> None:
        present = self.parked.get(position)
        self.parked[position] = lanes if present is None else np.logical_or(present, lanes)
