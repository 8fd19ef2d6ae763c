"""Time that several things may take together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Allowance:
    """So many seconds, wherever they go.

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
        """Whether nothing is left."""
        return self._spent >= self.seconds

    def limit(self, seconds: float) -> float:
        """What something may take that would get so many seconds if it were alone."""
        return max(0.0, min(seconds, self.seconds - self._spent))

    def spend(self, seconds: float) -> None:
        """Take some away."""
        self._spent += seconds

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Take away what the block takes."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spend(time.monotonic() - start)
