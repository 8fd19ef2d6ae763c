"""Helper processes that all parts of a process share: started at first use, ended at its exit."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Server(Protocol):
    """A helper process, such as a fork server."""

    @property
    def is_alive(self) -> bool:
        """True if the helper process can take requests."""

    def close(self) -> None:
        """End the helper process."""


Key = TypeVar("Key", bound=Hashable)
Served = TypeVar("Served", bound=Server)


class Shared(Generic[Key, Served]):
    """A collection of helper processes: at most one for each key, started at first use.

    A forked child of this process does not use its parent's helper processes; it starts its own.
    """

    def __init__(self, start: Callable[[Key], Served]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._owner = 0
        self._known: dict[Key, Served] = {}

    def get(self, key: Key) -> Served:
        """Return the helper process for `key`; start a new one if none is alive."""
        with self._lock:
            if self._owner != os.getpid():
                # The servers known so far belong to the process that forked this one.
                self._owner, self._known = os.getpid(), {}
                atexit.register(self._close)
            found = self._known.get(key)
            if found is None or not found.is_alive:
                if found is not None:
                    found.close()
                found = self._known[key] = self._start(key)
            return found

    def _close(self) -> None:
        if self._owner == os.getpid():
            for server in self._known.values():
                server.close()
            self._known = {}
