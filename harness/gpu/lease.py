"""Who may use how much of a GPU's memory: an account that all harness processes of a user share.

A case at a problem's own size takes gigabytes, in the process that judges and in the worker. As
many at a time as fit go on; the others wait until one of them gives its share back.
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
# Contexts of processes, and what else is on the GPU, need the rest.
_SHARED_OUT = 0.75
# Measured on an H100: the first problem, whose inputs and output are 4.0 GiB, takes 19.2 GiB. The
# device process keeps what it has freed, so that a share is held until it ends.
_COPIES = 4.0
_OF_TWO_PROCESSES = 3 << 29


def of_current_gpu() -> Account:
    """The account of the GPU that this process computes on."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Account(str(properties.uuid), int(_SHARED_OUT * properties.total_memory))


def need(elements: int) -> int:
    """Bytes that a case takes with so many numbers in inputs, weights and output together."""
    return int(4 * elements * _COPIES) + _OF_TWO_PROCESSES


def evaluations_that_fit() -> int:
    """How many evaluations at a time leave room for one case at a problem's own size."""
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return max(1, int((1 - _SHARED_OUT) * total) // _OF_TWO_PROCESSES)


class Account:
    """Of one GPU.

    Args:
        name: The GPU's, unique on this machine.
        capacity: Bytes that all shares together may take.
    """

    def __init__(self, name: str, capacity: int, folder: Path | None = None) -> None:
        folder = folder or Path(tempfile.gettempdir())
        self._path = folder / f"harness-gpu-{os.getuid()}-{name}.json"
        self._capacity = capacity

    @contextmanager
    def share(self, size: int) -> Iterator[None]:
        """Wait until so many bytes are free, and hold them.

        What is larger than all of the memory is let in when nobody else has a share.
        """
        while not self._take(size):
            time.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            self._give_back()

    @property
    def held(self) -> int:
        """Bytes that are lent now."""
        with self._entries() as (_, entries):
            return sum(entries.values())

    def _take(self, size: int) -> bool:
        with self._entries() as (file, entries):
            held = sum(entries.values())
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
        """The shares of processes that are there, by process; nobody else looks meanwhile."""
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known: dict[str, int] = {}
            # What a killed process left half-written is as good as nothing.
            with contextlib.suppress(ValueError):
                known = json.load(file)
            yield file, {key: size for key, size in known.items() if _is_there(key)}


def _write(file: IO[str], entries: dict[str, int]) -> None:
    file.seek(0)
    file.truncate()
    json.dump(entries, file)


def _own_key() -> str:
    """This process, which no later one of the same number is."""
    return f"{os.getpid()} {_started(os.getpid())}"


def _is_there(key: str) -> bool:
    process, _, started = key.partition(" ")
    return process.isdigit() and _started(int(process)) == started


def _started(process: int) -> str:
    """When a process started, in the kernel's clock ticks; empty where there is none."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    # The name, in parentheses, may hold anything; the start time is the 20th field behind it.
    return status.rpartition(")")[2].split()[19]
