"""Processes that run blocks of a launch in parallel with this one.

They are forked from this process when a launch first needs them, so they start with its state.
Device memory is shared. `multicore.py` defines their tasks and answers.
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
    """A process that runs blocks has ended unexpectedly."""


class SharedBoard:
    """Memory that all processes share: a counter to take numbers from, and a room for each process.

    Each room has `room_bytes` bytes. Pages that are never written use no memory.
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
        """Restart the counter at 0."""
        self._next[0] = 0

    def numbers(self, end: int) -> Iterator[int]:
        """Take numbers below `end`, each of which only one process receives."""
        while (number := int(self._take(self._next.ctypes.data))) < end:
            yield number

    def stop(self) -> None:
        """Stop dealing: raise the counter so that no process takes another number."""
        self._next[0] = _STOPPED

    def room(self, process: int) -> npt.NDArray[np.uint8]:
        """Return the room of a process; the dealing process has number 0."""
        start = _PAGE + process * self._room_bytes
        return self._bytes[start : start + self._room_bytes]


@dataclass(frozen=True)
class _Core:
    process: int
    connection: Connection


class WorkerProcesses(Generic[Task, Answer]):
    """A group of `count` processes that answer tasks.

    Each calls `begin()` once, and then `work(number, task)` for each task. Their numbers start at
    1.

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
        """True if this process forked them.

        A process that was forked later inherits this object and must not use it.
        """
        return self._owner == os.getpid()

    def ask(self, task: Task, count: int) -> None:
        """Send the task to the first `count` processes; their answers must then be read.

        Raises:
            CoreLost: One of them has ended.
        """
        for core in self._cores[:count]:
            try:
                core.connection.send(task)
            except OSError:
                raise CoreLost from None

    def answers(self, count: int) -> list[Answer]:
        """Wait for the answers of the first `count` processes.

        Raises:
            CoreLost: One of them has ended.
        """
        try:
            return [core.connection.recv() for core in self._cores[:count]]
        except (EOFError, OSError):
            raise CoreLost from None

    def close(self) -> None:
        """End the processes."""
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
    """Answer tasks until the process that sends them has ended."""
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
