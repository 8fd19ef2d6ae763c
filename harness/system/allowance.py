"""A time budget that several operations share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Allowance:
    """A time budget in seconds, shared by all operations that spend from it.

    >>> allowance = Allowance(2.0)
    >>> allowance.spend(1.5)
    >>> allowance.limit(60.0), allowance.is_used_up
    (0.5, False)
    >>> allowance.spend(1.0)
    >>> allowance.limit(60.0), allowance.is_used_up
    (0.0, True)
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._spent = 0.0

    @property
    def is_used_up(self) -> bool:
        """True if no time of the budget is left."""
        return self._spent >= self.seconds

    def limit(self, seconds: float) -> float:
        """Return the smaller one of `seconds` and the seconds that are left of the budget."""
        return max(0.0, min(seconds, self.seconds - self._spent))

    def spend(self, seconds: float) -> None:
        """Subtract `seconds` from the budget."""
        self._spent += seconds

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Subtract the duration of the `with` block from the budget, even if the block raises."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spend(time.monotonic() - start)
