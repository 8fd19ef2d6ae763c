"""Processes that serve the whole of this one: started when first needed, ended with it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Server(Protocol):
    """A process that serves this one."""

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for anything."""

    def close(self) -> None:
        """End it."""


Key = TypeVar("Key", bound=Hashable)
Served = TypeVar("Served", bound=Server)


class Shared(Generic[Key, Served]):
    """One server for each key. A child that this process forks has none of them."""

    def __init__(self, start: Callable[[Key], Served]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._owner = 0
        self._known: dict[Key, Served] = {}

    def get(self, key: Key) -> Served:
        """The server, started if there is none that lives."""
        with self._lock:
            if self._owner != os.getpid():
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
