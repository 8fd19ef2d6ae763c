"""What a sandbox may take of the machine.

This module is imported first in the processes that the limits are for: it imports nothing heavy.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GIB = 1 << 30
_MOST_MEMORY = 16 * _GIB
# For an evaluator, a compiler and what else runs on a small machine.
_SHARE_OF_MEMORY = 0.6


def _default_memory() -> int:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MOST_MEMORY, int(physical * _SHARE_OF_MEMORY))


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """For one sandbox.

    Attributes:
        memory_bytes: Of all its processes together; one alone gets no more address space for data.
        processes: At a time.
        threads: Of all its processes together, which the kernel counts; 301 at least.
        file_bytes: Of the largest file that it may write, what it prints among them.
        scratch_bytes: Of its scratch folder, which lies in memory.
        open_files: Of each process.
    """

    memory_bytes: int
    processes: int = 256
    threads: int = 1024
    file_bytes: int = _GIB // 4
    scratch_bytes: int = 2 * _GIB
    open_files: int = 4096

    @classmethod
    def for_this_machine(cls, cores: int = 1) -> Limits:
        """Generous ones, for work that is spread over so many processors."""
        processes = max(cls.processes, 4 * cores)
        # A library for matrices starts a thread for each processor, in each process that needs it.
        threads = 4 * processes + cores * (os.cpu_count() or 1)
        return cls(_default_memory(), processes, threads)

    def impose(self) -> None:
        """Set what the kernel can enforce for this process and those that it will start."""
        for kind, limit in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, self.memory_bytes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
        ):
            _, hardest = resource.getrlimit(kind)
            if hardest != resource.RLIM_INFINITY:
                limit = min(limit, hardest)
            resource.setrlimit(kind, (limit, limit))
        # Where memory runs out all the same, this is what goes first.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
