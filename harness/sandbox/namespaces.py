"""Entry of a process into an existing sandbox's namespaces, and the drop of its privileges.

bubblewrap created the namespaces; the entering process ends up confined like bubblewrap's own
command. The steps are those of nsenter(1) and of bubblewrap's `--cap-drop ALL`. The constants in
this module are from Linux's <linux/sched.h>, <linux/prctl.h> and <linux/capability.h>.
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
    """Enter all namespaces of a process, given by a pidfd, and drop all capabilities.

    The PID namespace applies to children that are forked afterwards, not to the caller. The caller
    must have only one thread.

    Raises:
        OSError: The kernel refuses.
    """
    _check(_libc.setns(process, _NAMESPACES))
    list(takewhile(lambda number: not _drop(number), range(_MOST_CAPABILITIES)))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Version 3 has two sets of three 32-bit masks: effective, permitted and inheritable.
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def be_ordinary() -> None:
    """Make this process dumpable again, so that it can access its own files in /proc.

    The kernel clears the dumpable flag, and gives these files to root, when a process changes its
    credentials.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))


def _drop(capability: int) -> int:
    # The call fails at the first number that the kernel does not define.
    status: int = _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    return status


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
