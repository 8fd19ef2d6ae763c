"""Supervision of a process tree's number of processes and memory, which the kernel cannot limit."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.sandbox.limits import Limits

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_SECONDS = 0.1
_GIB = 1 << 30


def processes_of(roots: Sequence[int], most: int) -> list[int]:
    """Return the process numbers of `roots` and their descendants, at most `most` + 1 of them."""
    waiting = [*roots]
    found: list[int] = []
    while waiting and len(found) <= most:
        process = waiting.pop()
        found.append(process)
        waiting += _children(process)
    return found


def memory_of(processes: Sequence[int], limit: int) -> int:
    """Return the bytes of memory that processes use together; a result above `limit` is exact.

    A cheap estimate adds the resident set sizes, which count a page once for each process that
    shares it. The estimate is never too low, so the exact value is computed only if the estimate
    exceeds `limit`.
    """
    rough = sum(map(_resident_bytes, processes))
    return rough if rough <= limit else sum(map(_share_of_memory, processes))


def _resident_bytes(process: int) -> int:
    try:
        words = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:  # it has ended meanwhile
        return 0
    return int(words[1]) * _PAGE


def _share_of_memory(process: int) -> int:
    """Return a process's own memory and its proportional part of shared pages (Pss), in bytes.

    This is slow, because the kernel walks all pages of the process.
    """
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except ProcessLookupError:
        return 0
    except OSError:
        return _resident_bytes(process)
    share = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    return int(share[1]) * 1024 if share else 0


def _children(process: int) -> list[int]:
    found: list[int] = []
    # The process or one of its threads may end at any time, before or after its folder is listed.
    with contextlib.suppress(OSError):
        for thread in list(Path(f"/proc/{process}/task").iterdir()):
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


class Watch:
    """Threads that check a process tree periodically and report when it exceeds its limits.

    One thread counts processes, and one thread sums memory. While a fork bomb grows, its processes
    hold kernel locks, and the exact memory sum takes up to a minute. The process count must not
    wait for the sum.
    """

    def __init__(self, root: int, limits: Limits, on_excess: Callable[[str], None]) -> None:
        """Start the threads.

        Args:
            root: Number of the process whose tree is watched.
            limits: The limits on the number of processes and on their memory.
            on_excess: Function that the threads call with a description of the exceeded limit. Both
                threads may call it; the first call has the cause.
        """
        self._roots: tuple[int, ...] = (root,)
        self._limits = limits
        self._on_excess = on_excess
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._look, args=(excess,), name="sandbox-watch", daemon=True)
            for excess in (self._excess_of_processes, self._excess_of_memory)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, root: int) -> None:
        """Watch the tree of another process too, with the same limits for both trees together."""
        self._roots = (*self._roots, root)

    def end(self) -> None:
        """Stop watching, and wait until the threads have ended."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _look(self, excess: Callable[[], str]) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            found = excess()
            if found:
                self._on_excess(found)
                return

    def _excess_of_processes(self) -> str:
        most = self._limits.processes
        count = len(processes_of(self._roots, most))
        return f"started more than {most} processes" if count > most else ""

    def _excess_of_memory(self) -> str:
        # RLIMIT_DATA limits one process; only this sum limits the whole tree.
        most = self._limits.memory_bytes
        processes = processes_of(self._roots, self._limits.processes)
        if memory_of(processes, most) > most:
            return f"took more than {most / _GIB:.1f} GiB of memory"
        return ""
