"""A limit on the number of threads in a sandbox, enforced by the kernel.

`watch.py` counts processes only ten times a second, which is too slow for a fork bomb.
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
"""The Linux version from which a user's processes are counted in each user namespace separately."""
_NUMBERED_FROM = (6, 14)
"""The Linux version from which each PID namespace has its own largest process number."""

_CAP_SYS_ADMIN = 21
"""The capability's number in <linux/capability.h>."""

_WRITE_SECONDS = 60.0


def limit(first: int, most: int) -> None:
    """Limit the number of threads in a sandbox that has not started its command yet.

    For an ordinary user, RLIMIT_NPROC is set. The kernel does not apply RLIMIT_NPROC to root. For
    root, the largest process number of the PID namespace is lowered, so that no number is left for
    a further thread. On kernels that have only one such number for the whole machine, root's
    threads are not limited.

    Args:
        first: Number of the sandbox's first process (its process 1), as this process sees it.
        most: Largest number of threads of all processes in the sandbox together.
    """
    # On older kernels pid_max applies to the whole machine.
    limit_count(first, most)
    if os.geteuid() == 0 and _linux() >= _NUMBERED_FROM:
        _limit_numbers(first, most)


def why_not() -> str:
    """Return why the kernel cannot limit a sandbox's threads, with a remedy; empty if it can."""
    if os.geteuid() == 0 and _linux() < _NUMBERED_FROM:
        major, minor = _NUMBERED_FROM
        return (
            f"root's processes can be limited only from Linux {major}.{minor} on, and "
            f"this is {platform.release()}; run: the same command as an ordinary user"
        )
    if os.geteuid() == 0 and not _may_enter_namespaces():
        return (
            "root's processes can be limited only with CAP_SYS_ADMIN, which containers "
            "take away; run: the same command as an ordinary user"
        )
    if _linux() < _COUNTED_FROM:
        major, minor = _COUNTED_FROM
        return (
            f"processes can be limited only from Linux {major}.{minor} on, and this is "
            f"{platform.release()}"
        )
    return ""


def limit_count(process: int, most: int) -> None:
    """Set RLIMIT_NPROC of a process, which limits the threads of an ordinary user's sandbox."""
    # Older kernels would count all threads of the user, not only those in the sandbox.
    if _linux() < _COUNTED_FROM:
        return
    _, hardest = resource.getrlimit(resource.RLIMIT_NPROC)
    count = most if hardest == resource.RLIM_INFINITY else min(most, hardest)
    with contextlib.suppress(OSError):
        resource.prlimit(process, resource.RLIMIT_NPROC, (count, count))


def _limit_numbers(first: int, most: int) -> None:
    """Lower the largest process number (pid_max) of the PID namespace of process `first`.

    Only a process that is in the namespace, and is root outside of it, can write pid_max.
    """
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
