"""Threads that wait in a loop for what another thread does.

A thread that comes back to the same place with the same values in all its registers that matter,
while no store and no atomic changed anything, cannot leave the loop by itself: it is parked until
others have run. A loop that looks different each time round (it counts its attempts) is broken off
after many rounds where others could run, which costs nothing but time.
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
"""Backward jumps after which a loop gives way to other threads of the chunk whatever it does."""
_PATIENCE_ALONE = 1 << 16
"""The same where no other thread of the chunk could run: other chunks may have to."""
_NAP = 100
"""Cycles by which the clock goes on when all threads sleep or spin."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Threads at a place, their registers' values, and how much had happened by then."""

    lanes: Lanes
    values: list[Array]
    progress: int


class Spinning:
    """Keeps watch over the loops of one chunk."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.changes = 0
        """Loops seen to change what is in their registers."""
        self.yields = 0
        self.clear()

    def clear(self) -> None:
        """Forgets everybody."""
        self.parked: dict[int, Lanes] = {}
        self.watched: dict[int, _Snapshot | None] = {}
        """Places where every arrival is looked at: once seen, or known to be spun at (None)."""
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
        """The threads to set aside, which are parked then; None when all go on."""
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
        """Threads let others go first, and go on at `position`."""
        self.yields += 1
        self._park(position, lanes)

    def tried_in_vain(self, progress: int) -> bool:
        """Whether nothing has happened since the parked threads were last let go."""
        return self._last_try == progress

    def release(self, progress: int, add: Callable[[int, Lanes], None]) -> None:
        """Lets the parked threads go on."""
        self._last_try = progress
        self._team.waited += _NAP
        parked, self.parked = self.parked, {}
        for position, lanes in parked.items():
            add(position, lanes)

    def _park(self, position: int, lanes: Lanes) -> None:
        present = self.parked.get(position)
        self.parked[position] = lanes if present is None else np.logical_or(present, lanes)
