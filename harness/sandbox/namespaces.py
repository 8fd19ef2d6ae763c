"""Enter the namespaces of a process in a sandbox, and give up what that took.

bubblewrap has made them; what enters is in the same place as its own command. The steps are those
of nsenter(1) and of bubblewrap's `--cap-drop ALL`; their constants stand in Linux's
<linux/sched.h>, <linux/prctl.h> and <linux/capability.h>.
"""

from __future__ import annotations

import ctypes
import os
from itertools import takewhile

_NAMESPACES = (
    0x10000000  # CLONE_NEWUSER
    | 0x20000000  # CLONE_NEWPID
    | 0x00020000  # CLONE_NEWNS
    | 0x40000000  # CLONE_NEWNET
    | 0x08000000  # CLONE_NEWIPC
    | 0x04000000  # CLONE_NEWUTS
    | 0x02000000  # CLONE_NEWCGROUP
)
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_MOST_CAPABILITIES = 64
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]


def enter(process: int) -> None:
    """Be where a process is, whose descriptor (pidfd) this is, with no more rights than it has.

    The process ID namespace is that of the children from now on, not of the caller. The caller has
    one thread.

    Raises:
        OSError: the kernel does not let it.
    """
    _check(_libc.setns(process, _NAMESPACES))
    list(takewhile(lambda number: not _drop(number), range(_MOST_CAPABILITIES)))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted and inheritable ones, twice 32 bits of each.
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def be_ordinary() -> None:
    """Own what /proc has of this process, as one does that has not entered anything.

    The kernel gives it to root when rights change.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))


def _drop(capability: int) -> int:
    # Fails for the first number that the kernel does not know.
    status: int = _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    return status


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
