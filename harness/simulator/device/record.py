"""Who worked on the device, as record.h keeps it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal, get_args

from harness.simulator.layout.counting import WorkEntry

Worker = Literal["operator", "kernel", "copy"]

OTHER, KERNEL = 1, 2
"""Who wrote an element, where it is not `native.UNWRITTEN`."""

_WORKERS: tuple[Worker, ...] = get_args(Worker)
_MOST_KINDS = 256


@dataclass(frozen=True)
class Work:
    """One kind of work on the device, all of it summed.

    Attributes:
        worker: An operator of torch, a kernel, or a copy from or to the host.
        name: The operator's schema, with ` (scaled)` where it also multiplies by a number; the
            kernel's mangled name; `from host` or `to host`.
        count: How often.
        elements: Of the largest tensor of each call; bytes of copies; 0 for kernels.
        multiplied: Products that an operator formed, where that is known.
    """

    worker: Worker
    name: str
    count: int
    elements: int = 0
    multiplied: int = 0


class Record:
    """The record of the runtime library `library`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.sim_take_record.restype = ctypes.c_uint64
        library.sim_take_record.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._take = library.sim_take_record
        self._room = (WorkEntry * _MOST_KINDS)()

    def take(self) -> tuple[Work, ...]:
        """What was done since the last call."""
        count = self._take(self._room, _MOST_KINDS)
        return tuple(
            Work(
                _WORKERS[entry.worker],
                entry.name.decode(errors="replace"),
                entry.count,
                entry.elements,
                entry.multiplied,
            )
            for entry in self._room[:count]
        )
