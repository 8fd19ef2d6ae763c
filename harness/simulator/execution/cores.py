"""Processes that run blocks of a launch beside this one.

They are forked from this process when a launch first has blocks for them, and know what it knew
then; device memory is theirs too. What they are asked and what they answer is in `multicore.py`.
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
    """A process that runs blocks has ended before it should."""


class Board:
    """Memory that all processes see: a row of numbers to take from, and a room for each process.

    Rooms have `room_bytes` bytes; pages that are not written cost nothing.
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
        """Starts a new row, at 0."""
        self._next[0] = 0

    def numbers(self, end: int) -> Iterator[int]:
        """Takes numbers below `end`, each of which is given to one process only."""
        while (number := int(self._take(self._next.ctypes.data))) < end:
            yield number

    def stop(self) -> None:
        """Nobody takes a small number any more."""
        self._next[0] = _STOPPED

    def room(self, process: int) -> npt.NDArray[np.uint8]:
        """The room of a process; that of the one that deals is 0."""
        start = _PAGE + process * self._room_bytes
        return self._bytes[start : start + self._room_bytes]


@dataclass(frozen=True)
class _Core:
    process: int
    connection: Connection


class Cores(Generic[Task, Answer]):
    """`count` processes that call `begin()`, and then answer tasks with `work(number, task)`.

    They are numbered from 1 on.

    Raises:
        OSError: the system does not allow so many processes.
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
        """Whether this process has forked them; one that was forked since must leave them alone."""
        return self._owner == os.getpid()

    def ask(self, task: Task, count: int) -> None:
        """Gives the task to the first `count` processes, each of which has to be listened to.

        Raises:
            CoreLost: one has ended.
        """
        for core in self._cores[:count]:
            try:
                core.connection.send(task)
            except OSError:
                raise CoreLost from None

    def answers(self, count: int) -> list[Answer]:
        """Waits for the answers of the first `count` processes.

        Raises:
            CoreLost: one has ended.
        """
        try:
            return [core.connection.recv() for core in self._cores[:count]]
        except (EOFError, OSError):
            raise CoreLost from None

    def close(self) -> None:
        """Ends the processes."""
        for core in self._cores:
            core.connection.close()
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(core.process, signal.SIGKILL)
                os.waitpid(core.process, 0)
        self._cores = []


def _fork(begin: Callable[[], None], work: Callable[[Any], Any]) -> _Core:
    ours, theirs = Pipe()
    with warnings.catch_warnings():
        # Python warns where there are threads, which may hold locks: what is forked uses NumPy and
        # the simulator only.
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
    """Answers tasks until the process that gives them has gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A reader of an inherited pipe sees its end only when this process has closed its copy too.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    # What came with the fork stays as it is: collecting garbage there would copy it.
    gc.freeze()
    begin()
    with contextlib.suppress(EOFError):
        while True:
            connection.send(work(connection.recv()))
