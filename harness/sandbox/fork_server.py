"""A process that imports Python programs in advance, and forks once for each run of a program.

Usage: `python -m harness.sandbox.fork_server DESCRIPTOR PROGRAMS`. Importing torch takes seconds of
processor time; forking a process that has imported torch takes a hundredth of that. The server
itself runs outside of any sandbox and executes no untrusted code. Each fork enters its sandbox, if
it has one, before its program starts.

Each run has two processes. The guard is a child of the server: it enters the sandbox's namespaces,
forks, and reports the end of its child. The guard's child runs the program. The guard is needed
because setns(2) moves only the children of its caller into a PID namespace.
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
"""Size limit of a request in bytes."""
MOST_DESCRIPTORS = 16
FIRST_DESCRIPTOR = 3
"""The number of the first descriptor that a fork's program gets after the standard streams."""
# Above all descriptor numbers that a program gets, and below the lowest limit of open files.
_ASIDE = 64
_ALL = 1 << 30
_SHOWN_CHARACTERS = 15


@dataclass(frozen=True)
class Programs:
    """The programs that a fork server imports at its start.

    Attributes:
        libraries: Shared objects to load before any import. The loader resolves the symbols of
            later libraries in these objects first.
        modules: Modules to import. The function `main()` of a module is the program, and reads
            `sys.argv`.
    """

    libraries: tuple[Path, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    """A request to a fork server to run a program in a fork.

    File descriptors come with the request, in this order:

    - A pidfd of the sandbox's process 1, if `is_confined`.
    - A pipe to which the guard writes the program's process number and, at the end, its exit
      status.
    - A file for the program's standard output and error.
    - Descriptors for the program, which finds them at `FIRST_DESCRIPTOR` and the next numbers.

    Attributes:
        module: The module whose `main()` runs.
        arguments: Arguments of the program, in `sys.argv`.
        title: Name of the process in process listings.
        folder: Working, home and temporary folder of the process; with a sandbox, a path in the
            sandbox.
        is_confined: True if the fork enters a sandbox.
    """

    module: str
    arguments: tuple[str, ...]
    title: str
    folder: str
    is_confined: bool


def main() -> None:
    """Import the programs, and fork for each request until the client closes the socket."""
    server = socket.socket(fileno=int(sys.argv[1]))
    programs = codec.decode(sys.argv[2], Programs)
    for library in programs.libraries:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    modules = {name: importlib.import_module(name) for name in programs.modules}
    # Without this, a collection in a fork would write to the shared pages of all objects and so
    # copy them.
    gc.collect()
    gc.freeze()
    # The kernel reaps the guards: each reports the end of its child itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(server, MOST_BYTES, MOST_DESCRIPTORS)
        if not data:
            # The interpreter's own end would tear torch down first, which takes half a second.
            os._exit(0)
        if not os.fork():
            server.close()
            fork = codec.decode(data.decode(), Fork)
            _guard(modules[fork.module].main, fork, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _guard(run: Callable[[], None], fork: Fork, descriptors: Sequence[int]) -> NoReturn:
    """Enter the sandbox, run the program in a child; report the child's number and exit status."""
    # Without a sandbox, this signal ends the guard with the server. In a sandbox, everything ends
    # with process 1.
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
    # setns(2) with a PID namespace affects only children that are forked afterwards.
    process = os.fork()
    if not process:
        _become(run, fork, output, others)
    # The guard must not hold the child's descriptors: the other side of a pipe sees end-of-file
    # only after every copy is closed.
    for descriptor in (output, *others):
        os.close(descriptor)
    os.write(told, f"{process}\n".encode())
    # A sandbox ends only after all its processes are reaped, so its child is reaped here. Without a
    # sandbox, the other side may still send signals to the child's number. WNOWAIT keeps the child
    # as a zombie, which reserves the number, until the other side has closed the pipe.
    ended = os.waitid(os.P_PID, process, os.WEXITED | (0 if fork.is_confined else os.WNOWAIT))
    _end_the_rest(sandbox, process)
    os.write(told, f"{_exit_code(ended)}\n".encode())
    if not fork.is_confined:
        _await_hang_up(told)
    os._exit(0)


def _end_the_rest(sandbox: int | None, process: int) -> None:
    """Kill all processes that an ended program has left: its sandbox, or its process group."""
    if sandbox is not None:
        signal.pidfd_send_signal(sandbox, signal.SIGKILL)
        select.select([sandbox], [], [])
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _exit_code(ended: os.waitid_result | None) -> int:
    """Return the exit status of a process, or minus the number of the signal that killed it."""
    if ended is None:
        return -signal.SIGKILL
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _await_hang_up(descriptor: int) -> None:
    """Wait until the other process has closed the reading end of this pipe."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    waiting.poll()


def _become(run: Callable[[], None], fork: Fork, output: int, others: Sequence[int]) -> NoReturn:
    """Run the program in this process, without the server's descriptors, and exit."""
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
    """Move a descriptor above all numbers that programs expect, and return its new number."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD, _ASIDE)
    os.close(descriptor)
    return number


def _take(output: int, others: Sequence[int]) -> None:
    """Move the descriptors to the numbers that the program expects, and close all others."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, output, *others)):
        os.dup2(descriptor, number)
    os.closerange(FIRST_DESCRIPTOR + len(others), _ALL)


if __name__ == "__main__":
    main()
