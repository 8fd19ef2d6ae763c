"""Reservations of a GPU's memory, which a user's harness processes on this machine share.

A case at the reference's own size takes gigabytes, both in the judging process and in the device
process. Such cases run at the same time if their reservations fit into the memory. The others wait
until a reservation ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import torch

_LOOK_SECONDS = 0.1
# The rest is for the contexts of processes and for other programs on the GPU.
_SHARED_OUT = 0.75
# Measured on an H100: the first problem, whose inputs and output are 4.0 GiB, takes 19.2 GiB. The
# device process keeps freed memory, so a share is held until that process ends.
_COPIES = 4.0
_OF_TWO_PROCESSES = 3 << 29


def of_current_gpu() -> MemoryBudget:
    """Return the memory budget of the GPU that this process computes on."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return MemoryBudget(str(properties.uuid), int(_SHARED_OUT * properties.total_memory))


def bytes_needed(elements: int) -> int:
    """Return the GPU memory in bytes that a case needs.

    `elements` is the number of elements of inputs, weights and output together.
    """
    return int(4 * elements * _COPIES) + _OF_TWO_PROCESSES


def evaluations_that_fit() -> int:
    """Return how many evaluations may run on the current GPU at a time.

    Reservations cannot take all of the GPU's memory. The rest must suffice for the two processes of
    each evaluation.
    """
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return max(1, int((1 - _SHARED_OUT) * total) // _OF_TWO_PROCESSES)


class MemoryBudget:
    """The memory of one GPU that processes have reserved, recorded in a locked JSON file.

    A process may be killed while it holds a reservation, and the file remains. So each reservation
    is stored with its process, and does not count once the process has ended.

    Args:
        name: Name of the GPU, unique on this machine.
        capacity: Bytes that all reservations together may take.
        folder: Folder of the file; by default the folder of temporary files.
    """

    def __init__(self, name: str, capacity: int, folder: Path | None = None) -> None:
        folder = folder or Path(tempfile.gettempdir())
        self._path = folder / f"harness-gpu-{os.getuid()}-{name}.json"
        self._capacity = capacity

    @contextmanager
    def share(self, size: int) -> Iterator[None]:
        """Wait until `size` bytes are not reserved, and reserve them within the context.

        If `size` is above the capacity, wait until no other process has a reservation.
        """
        while not self._take(size):
            time.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            self._give_back()

    @property
    def held(self) -> int:
        """Number of bytes that living processes have reserved."""
        with self._entries() as (_, entries):
            return sum(entries.values())

    def _take(self, size: int) -> bool:
        with self._entries() as (file, entries):
            held = sum(entries.values())
            # A case that is larger than the capacity must run as well, so the first share may be of
            # any size.
            if held and held + size > self._capacity:
                return False
            entries[_own_key()] = size
            _write(file, entries)
        return True

    def _give_back(self) -> None:
        with self._entries() as (file, entries):
            entries.pop(_own_key(), None)
            _write(file, entries)

    @contextmanager
    def _entries(self) -> Iterator[tuple[IO[str], dict[str, int]]]:
        """Lock the file; yield it, and a map from each living process to its reserved bytes."""
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known: dict[str, int] = {}
            # A killed process may leave half a file; its content is dropped.
            with contextlib.suppress(ValueError):
                known = json.load(file)
            yield file, {key: size for key, size in known.items() if _is_there(key)}


def _write(file: IO[str], entries: dict[str, int]) -> None:
    file.seek(0)
    file.truncate()
    json.dump(entries, file)


def _own_key() -> str:
    """Return the process number and start time; no later process has the same pair."""
    return f"{os.getpid()} {_started(os.getpid())}"


def _is_there(key: str) -> bool:
    process, _, started = key.partition(" ")
    return process.isdigit() and _started(int(process)) == started


def _started(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if it does not exist."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    # The name, in parentheses, may contain anything. The start time is the 20th field after it.
    return status.rpartition(")")[2].split()[19]
