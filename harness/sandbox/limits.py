"""Resource limits for the processes in a sandbox.

The limited processes import this module first, so it imports nothing that is slow to import.
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
# The rest is left for an evaluator, a compiler and other programs on a small machine.
_SHARE_OF_MEMORY = 0.6


def _default_memory() -> int:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MOST_MEMORY, int(physical * _SHARE_OF_MEMORY))


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent process ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """Resource limits of one sandbox, each for all its processes together unless noted.

    Attributes:
        memory_bytes: Memory in bytes. It also limits the data segment of each process
            (RLIMIT_DATA).
        processes: Number of processes at a time.
        threads: Number of threads, enforced by the kernel; at least 301.
        file_bytes: Largest size in bytes of a file that a process writes; printed output counts as
            a file.
        scratch_bytes: Size in bytes of the scratch folder, which is in memory.
        open_files: Number of open files of each process.
    """

    memory_bytes: int
    processes: int = 256
    threads: int = 1024
    file_bytes: int = _GIB // 4
    scratch_bytes: int = 2 * _GIB
    open_files: int = 4096

    @classmethod
    def for_this_machine(cls, cores: int = 1) -> Limits:
        """Return limits, by this machine's memory and cores, for a program of `cores` processes."""
        processes = max(cls.processes, 4 * cores)
        # A BLAS library starts a thread for each processor in each process that uses it.
        threads = 4 * processes + cores * (os.cpu_count() or 1)
        return cls(_default_memory(), processes, threads)

    def impose(self) -> None:
        """Set the limits that the kernel enforces for a single process, here and in children."""
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
        # If the machine still runs out of memory, the kernel kills this process first.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
