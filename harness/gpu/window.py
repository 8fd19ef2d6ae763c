"""Memory of one process on a GPU that another one opens: tensors of gigabytes need not travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.gpu.driver import Driver, tensor_at
from harness.messages.channel import DTYPES
from harness.system.shared import Shared

WORTHWHILE_BYTES = 16 << 20
"""Fewer go through a socket as fast."""

_STEP = 512
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Placed = list[dict[str, Any]]
"""Of each tensor in a window its offset in bytes, shape and dtype, as plain data."""


class Window:
    """The memory, in the process that it belongs to."""

    is_alive = True
    """As servers of this process have it."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._address = self._size = 0
        self.handle = ""
        """By which the other process finds it; another one after `make_room`."""

    def make_room(self, nbytes: int) -> None:
        """Have so many bytes at least; what was there is of no use any more.

        Raises:
            harness.gpu.driver.DriverError: there are not so many, or processes cannot share memory.
        """
        if nbytes <= self._size:
            return
        self.close()
        self._address = self._driver.allocate(nbytes)
        self._size = nbytes
        self.handle = self._driver.export(self._address)

    def put(self, tensors: Sequence[Tensor], room: int = 0) -> Placed:
        """Copy tensors there, once there is room for them, and for so many bytes behind them."""
        self.make_room(end_of(tensors) + room)
        return _copied(self._address, tensors)

    def at(self, placed: Placed) -> tuple[Tensor, ...]:
        """What is there, until something else is."""
        return _tensors(self._address, placed)

    def close(self) -> None:
        """Give the memory back; who needs it again makes room."""
        if self._size:
            self._driver.free(self._address)
        self._address = self._size = 0
        self.handle = ""


_windows: Shared[None, Window] = Shared(lambda _: Window())


def own_window() -> Window:
    """This process's: whatever it says to other processes, it says to one at a time."""
    return _windows.get(None)


class OpenedWindow:
    """The memory, in the other process."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._handle = ""
        self._address = 0

    def at(self, handle: str, placed: Placed) -> tuple[Tensor, ...]:
        """What is there, until something else is."""
        self._open(handle)
        return _tensors(self._address, placed)

    def put(self, handle: str, tensors: Sequence[Tensor], behind: int = 0) -> Placed:
        """Copy tensors there, for which there is room from so many bytes on."""
        self._open(handle)
        return _copied(self._address, tensors, behind)

    def _open(self, handle: str) -> None:
        if handle == self._handle:
            return
        if self._handle:
            self._driver.close(self._address)
        self._handle, self._address = handle, self._driver.open(handle)


def room_for(nbytes: int, count: int) -> int:
    """Bytes that so many tensors of so many bytes take at most."""
    return nbytes + count * _STEP


def end_of(tensors: Sequence[Tensor]) -> int:
    """Where something can be put behind tensors, in bytes."""
    whole = room_for(sum(tensor.nbytes for tensor in tensors), len(tensors))
    return -(-whole // _STEP) * _STEP


def _copied(address: int, tensors: Sequence[Tensor], behind: int = 0) -> Placed:
    placed: Placed = []
    offset = behind
    for tensor in tensors:
        if tensor.numel():
            there = tensor_at(address + offset, (tensor.nbytes,), torch.uint8)
            there.view(tensor.dtype).view(tensor.shape).copy_(tensor)
        placed.append(
            {"offset": offset, "shape": list(tensor.shape), "dtype": _NAMES[tensor.dtype]}
        )
        offset += -(-tensor.nbytes // _STEP) * _STEP
    torch.cuda.synchronize()
    return placed


def _tensors(address: int, placed: Placed) -> tuple[Tensor, ...]:
    found = []
    for each in placed:
        dtype, shape = DTYPES[each["dtype"]], tuple(each["shape"])
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        if not nbytes:
            found.append(torch.empty(shape, dtype=dtype, device="cuda"))
            continue
        data = tensor_at(address + each["offset"], (nbytes,), torch.uint8)
        found.append(data.view(dtype).view(shape))
    return tuple(found)
