"""Detection of threads that wait in a loop for another thread.

A thread that returns to the same place with the same live registers cannot leave the loop by
itself. It could only do so if a store or an atomic had changed memory meanwhile. Such a thread is
parked until others have run.

A loop that differs in each round (it counts its attempts, for example) never matches. After many
rounds it is interrupted where others could run, which costs only time.
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
    """The threads at a place, their registers' values, and the progress counter at that time."""

    lanes: Lanes
    values: list[Array]
    progress: int


class Spinning:
    """Watch over the loops of one chunk.

    Attributes:
        changes: A counter that grows when a watched loop has changed its registers, when a loop is
            interrupted, and when an action has run.
        yields: A counter of the times that threads slept.
        parked: The parked threads, by the block of code where they continue.
        watched: Places where each arrival is examined, with the last snapshot. The value is None at
            a place where threads have spun.
        backs: Backward jumps so far.
        due: Number of backward jumps at which the next look is due.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self.changes = 0
        self.yields = 0
        self.clear()

    def clear(self) -> None:
        """Forget all loops and parked threads."""
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
        """Examine threads that have jumped back; park and return those that spin.

        Return None if all continue.

        Args:
            position: Block of code that they have returned to.
            lanes: The threads.
            values: Values of the live registers there.
            progress: The progress counter.
            has_others: True if other threads of the chunk can run.
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
        """Park threads that let others run first; they continue at `position`."""
        self.yields += 1
        self._park(position, lanes)

    def tried_in_vain(self, progress: int) -> bool:
        """Return whether nothing has happened since the parked threads were last released."""
        return self._last_try == progress

    def release(self, progress: int, add: Callable[[int, Lanes], None]) -> None:
        """Release the parked threads."""
        self._last_try = progress
        self._team.waited += _NAP
        parked, self.parked = self.parked, {}
        for position, lanes in parked.items():
            add(position, lanes)

    def _park(self, position: int, lanes: Lanes) -> None:
        present = self.parked.get(position)
        self.parked[position] = lanes if present is None else np.logical_or(present, lanes)
