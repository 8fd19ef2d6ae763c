"""Forked processes that run thread blocks of a launch in parallel with the main process.

The main process forks the other processes when a launch first needs them, so they start with a copy
of its state. All of them share the memory of the simulated device. `multicore.py` defines the tasks
that the processes receive and the answers that they return.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

_PR_SET_PDEATHSIG = 1
_PAGE = mmap.PAGESIZE
_STOPPED = 1 << 62

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class CoreLost(RuntimeError):
    """A forked process that runs blocks of a launch has ended unexpectedly."""


class SharedBoard:
    """Memory that the processes of a launch share: a counter, and a buffer for each process.

    A process takes a number from the counter to learn which part of the launch it runs next. Each
    process writes results to its own buffer ("room") of `room_bytes` bytes. Pages that are never
    written use no memory.
    """

    def __init__(self, library: ctypes.CDLL, processes: int, room_bytes: int) -> None:
        self._memory = mmap.mmap(-1, _PAGE + processes * room_bytes)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._next = self._bytes[:8].view(np.uint64)
        self._room_bytes = room_bytes
        self._take = library.sim_take
        self._take.argtypes = (ctypes.c_void_p,)
        self._take.restype = ctypes.c_uint64

    def deal(self) -> None:
        """Set the counter to 0, so that processes can take numbers for a new launch."""
        self._next[0] = 0

    def numbers(self, end: int) -> Iterator[int]:
        """Yield numbers below `end` from the counter; each number is given to only one process."""
        while (number := int(self._take(self._next.ctypes.data))) < end:
            yield number

    def stop(self) -> None:
        """Raise the counter so far that no process takes another number."""
        self._next[0] = _STOPPED

    def room(self, process: int) -> npt.NDArray[np.uint8]:
        """Return the buffer of process number `process`; the main process has number 0."""
        start = _PAGE + process * self._room_bytes
        return self._bytes[start : start + self._room_bytes]


@dataclass(frozen=True)
class _Core:
    process: int
    connection: Connection


class WorkerProcesses(Generic[Task, Answer]):
    """A group of `count` forked processes that receive tasks and return answers.

    Each process calls `begin()` once, and then `work(number, task)` for each task. `number` is the
    number of the process, from 1 on.

    Raises:
        OSError: The system does not allow so many processes.
    """

    def __init__(
        self, count: int, begin: Callable[[], None], work: Callable[[int, Task], Answer]
    ) -> None:
        self._owner = os.getpid()
        self._cores: list[_Core] = []
        try:
            for number in range(1, count + 1):
                self._cores.append(_fork(begin, partial(work, number)))
        except OSError:
            self.close()
            raise

    @property
    def are_mine(self) -> bool:
        """True if the calling process forked this group.

        A process that was forked later inherits a copy of this object and must not use it.
        """
        return self._owner == os.getpid()

    def ask(self, task: Task, count: int) -> None:
        """Send the task to the first `count` processes; the caller must then call `answers`.

        Raises:
            CoreLost: One of the processes has ended.
        """
        for core in self._cores[:count]:
            try:
                core.connection.send(task)
            except OSError:
                raise CoreLost from None

    def answers(self, count: int) -> list[Answer]:
        """Wait for the answers of the first `count` processes, and return them in order.

        Raises:
            CoreLost: One of the processes has ended.
        """
        try:
            return [core.connection.recv() for core in self._cores[:count]]
        except (EOFError, OSError):
            raise CoreLost from None

    def close(self) -> None:
        """Kill the processes, even while they work."""
        for core in self._cores:
            core.connection.close()
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(core.process, signal.SIGKILL)
                os.waitpid(core.process, 0)
        self._cores = []


def _fork(begin: Callable[[], None], work: Callable[[Any], Any]) -> _Core:
    ours, theirs = Pipe()
    with warnings.catch_warnings():
        # Python warns about forking a process with threads, because they may hold locks. The forked
        # process uses only NumPy and the simulator.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        theirs.close()
        return _Core(process, ours)
    try:
        _serve(theirs, begin, work)
    finally:
        os._exit(0)


def _serve(connection: Connection, begin: Callable[[], None], work: Callable[[Any], Any]) -> None:
    """Receive and answer tasks in a forked process until the main process has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A reader of an inherited pipe sees end-of-file only when this process has closed its copy,
    # too.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    # The garbage collector would write to inherited objects, and so copy their pages.
    gc.freeze()
    begin()
    with contextlib.suppress(EOFError):
        while True:
            connection.send(work(connection.recv()))
