"""Look after what the kernel has no limit for: processes and memory of a whole tree."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.limits import Limits

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_SECONDS = 0.1
_GIB = 1 << 30


@dataclass(frozen=True)
class Usage:
    """Of a process and everything below it; what forked processes share counts once for each."""

    processes: int
    memory_bytes: int


def usage_of(root: int, most_processes: int) -> Usage:
    """Look at a tree; stops counting where there are more processes than that."""
    waiting = [root]
    count = memory = 0
    while waiting and count <= most_processes:
        process = waiting.pop()
        count += 1
        memory += _resident_bytes(process)
        waiting += _children(process)
    return Usage(count, memory)


def _resident_bytes(process: int) -> int:
    try:
        words = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:  # it has ended meanwhile
        return 0
    return int(words[1]) * _PAGE


def _children(process: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += map(int, thread.read_text().split())
    return found


class Watch:
    """A thread that looks at a tree of processes and says when it takes too much."""

    def __init__(self, root: int, limits: Limits, on_excess: Callable[[str], None]) -> None:
        """`on_excess` is told in words, once, from that thread."""
        self._root = root
        self._limits = limits
        self._on_excess = on_excess
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="sandbox-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            excess = self._excess()
            if excess:
                self._on_excess(excess)
                return

    def _excess(self) -> str:
        limits = self._limits
        usage = usage_of(self._root, limits.processes)
        if usage.processes > limits.processes:
            return f"started more than {limits.processes} processes"
        if usage.memory_bytes > limits.memory_bytes:
            return f"took more than {limits.memory_bytes / _GIB:.0f} GiB of memory"
        return ""
