"""How many threads a sandbox's processes may have together: a limit that the kernel holds.

Looking at a tree ten times a second (`watch.py`) is too slow for one that doubles at each step.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import subprocess
from pathlib import Path

_COUNTED_FROM = (5, 14)
"""The Linux since which a user's processes are counted for each user namespace."""
_NUMBERED_FROM = (6, 14)
"""The Linux since which each PID namespace has a largest process number of its own."""

_CAP_SYS_ADMIN = 21
"""Its number in <linux/capability.h>."""

_WRITE_SECONDS = 60.0


def limit(first: int, most: int) -> None:
    """Limit the threads in the namespaces of a sandbox, whose first process has not begun yet.

    The kernel counts an ordinary user's. Root's it does not, but the numbers can run out that
    processes and threads have. Where the kernel is too old for that, this does nothing.

    Args:
        first: Process 1 of the PID namespace, by its number in this one.
        most: Threads of all processes together.
    """
    # Older kernels would take the numbers for the whole machine's.
    limit_count(first, most)
    if os.geteuid() == 0 and _linux() >= _NUMBERED_FROM:
        _limit_numbers(first, most)


def why_not() -> str:
    """Why the kernel has no such limit here, with what to do; empty where it should have one."""
    if os.geteuid() == 0 and _linux() < _NUMBERED_FROM:
        major, minor = _NUMBERED_FROM
        return (
            f"root's processes can be limited from Linux {major}.{minor} on, and this is "
            f"{platform.release()}; run: the same as an ordinary user"
        )
    if os.geteuid() == 0 and not _may_enter_namespaces():
        return (
            "root's processes can be limited with CAP_SYS_ADMIN, which containers take away; run: "
            "the same as an ordinary user"
        )
    if _linux() < _COUNTED_FROM:
        major, minor = _COUNTED_FROM
        return (
            f"processes can be limited from Linux {major}.{minor} on, and this is "
            f"{platform.release()}"
        )
    return ""


def limit_count(process: int, most: int) -> None:
    """Limit what the kernel counts for an ordinary user, for a process and those that it starts."""
    # Older kernels would take it for the whole user's.
    if _linux() < _COUNTED_FROM:
        return
    _, hardest = resource.getrlimit(resource.RLIMIT_NPROC)
    count = most if hardest == resource.RLIM_INFINITY else min(most, hardest)
    with contextlib.suppress(OSError):
        resource.prlimit(process, resource.RLIMIT_NPROC, (count, count))


def _limit_numbers(first: int, most: int) -> None:
    """Only a process inside of the namespace can say it, and only one that is root outside."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [
                *("nsenter", "--target", str(first), "--pid"),
                *("/bin/sh", "-c", 'echo "$0" >/proc/sys/kernel/pid_max', str(most)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_WRITE_SECONDS,
        )


def _may_enter_namespaces() -> bool:
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return bool(found and int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


def _linux() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)
