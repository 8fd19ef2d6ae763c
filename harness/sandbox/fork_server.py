"""A process that has imported programs already, and forks for each time that one is to run.

`python -m harness.sandbox.fork_server DESCRIPTOR PROGRAMS`. Importing torch takes seconds of
processor time, forking a process that has it a hundredth of that. The server itself is outside of
any sandbox, and runs nothing of a stranger's; each fork enters its sandbox, if it has one, first.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from harness.sandbox import namespaces
from harness.sandbox.limits import die_with_parent
from harness.system import codec

MOST_BYTES = 1 << 16
"""Of a request."""
MOST_DESCRIPTORS = 16
FIRST_DESCRIPTOR = 3
"""What a fork's own descriptors are numbered from."""
# Above these numbers, and below the lowest limit of open files.
_ASIDE = 64
_ALL = 1 << 30
_SHOWN_CHARACTERS = 15


@dataclass(frozen=True)
class Programs:
    """What a server has ready.

    Attributes:
        libraries: Shared objects that are loaded before anything is imported; what is loaded later
            finds their functions first.
        modules: Each has a `main()`, which is a program; it reads `sys.argv`.
    """

    libraries: tuple[Path, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    """What one fork is to do. Two descriptors come with it, and those that it shall have.

    The two are where it tells how it goes, and its output; the others are numbered from 3 on. The
    first process of a sandbox that it enters (a pidfd) comes before all of them.

    Attributes:
        module: Whose program it runs.
        arguments: Of the program.
        title: What process listings show as its name.
        folder: Its working, home and temporary folder, in the sandbox if there is one.
        is_confined: Whether it enters a sandbox.
    """

    module: str
    arguments: tuple[str, ...]
    title: str
    folder: str
    is_confined: bool


def main() -> None:
    """Import the programs, and fork for each request until nobody can send one."""
    server = socket.socket(fileno=int(sys.argv[1]))
    programs = codec.decode(sys.argv[2], Programs)
    for library in programs.libraries:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    modules = {name: importlib.import_module(name) for name in programs.modules}
    # A collection would touch, and so copy, all that the forks share.
    gc.collect()
    gc.freeze()
    # Nobody asks how a child has ended: it tells that by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(server, MOST_BYTES, MOST_DESCRIPTORS)
        if not data:
            return
        if not os.fork():
            server.close()
            fork = codec.decode(data.decode(), Fork)
            _guard(modules[fork.module].main, fork, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _guard(run: Callable[[], None], fork: Fork, descriptors: Sequence[int]) -> NoReturn:
    """Run the program in a child, in its sandbox; tell the child's number and how it ends."""
    # In a sandbox everything ends with the first process; without one, with this.
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    numbers = [_aside(descriptor) for descriptor in descriptors]
    sandbox = numbers.pop(0) if fork.is_confined else None
    told, output, *others = numbers
    try:
        if sandbox is not None:
            namespaces.enter(sandbox)
    except OSError as error:
        os.write(told, f"{error.strerror}\n".encode())
        os._exit(1)
    # Only a child is in the namespace of processes.
    process = os.fork()
    if not process:
        _become(run, fork, output, others)
    # Who is connected to the child sees its end.
    for descriptor in (output, *others):
        os.close(descriptor)
    os.write(told, f"{process}\n".encode())
    # A sandbox does not end before all of it is reaped. Without one the child's number must stay
    # its own while anybody may send it a signal: until nobody listens here any more.
    ended = os.waitid(os.P_PID, process, os.WEXITED | (0 if fork.is_confined else os.WNOWAIT))
    _end_the_rest(sandbox, process)
    os.write(told, f"{_exit_code(ended)}\n".encode())
    if not fork.is_confined:
        _await_hang_up(told)
    os._exit(0)


def _end_the_rest(sandbox: int | None, process: int) -> None:
    """End what a child that has ended may have left: all of its sandbox, or its group."""
    if sandbox is not None:
        signal.pidfd_send_signal(sandbox, signal.SIGKILL)
        select.select([sandbox], [], [])
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _exit_code(ended: os.waitid_result | None) -> int:
    """The status that a process gave itself, or the negative number of the signal that ended it."""
    if ended is None:
        return -signal.SIGKILL
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _await_hang_up(descriptor: int) -> None:
    """Wait until nobody can read any more what is written to a pipe."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    waiting.poll()


def _become(run: Callable[[], None], fork: Fork, output: int, others: Sequence[int]) -> NoReturn:
    """Run the program in this process, with nothing of the server's but what it has imported."""
    status = 1
    try:
        if fork.is_confined:
            namespaces.be_ordinary()
        os.setsid()
        os.chdir(fork.folder)
        os.environ.update(HOME=fork.folder, TMPDIR=fork.folder)
        _take(output, others)
        Path("/proc/self/comm").write_text(fork.title[:_SHOWN_CHARACTERS])
        sys.argv = [sys.argv[0], *fork.arguments]
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(status & 0xFF)


def _aside(descriptor: int) -> int:
    """The same descriptor by a number that none of the program's has."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD, _ASIDE)
    os.close(descriptor)
    return number


def _take(output: int, others: Sequence[int]) -> None:
    """Have standard streams and the others by the numbers that they shall have, and no more."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, output, *others)):
        os.dup2(descriptor, number)
    os.closerange(FIRST_DESCRIPTOR + len(others), _ALL)


if __name__ == "__main__":
    main()
