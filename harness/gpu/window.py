"""Windows: GPU memory that two processes share, so that no large tensor passes through a socket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.gpu.driver import Driver, tensor_at
from harness.messages.channel import DTYPES, NAMES
from harness.system.shared import Shared

WORTHWHILE_BYTES = 16 << 20
"""Size from which a window is faster than a socket."""

# Tensors start at multiples of this, as in torch's own allocator.
_STEP = 512


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor in a window of GPU memory.

    Attributes:
        offset: Offset of the first byte from the start of the window.
        shape: Size of each dimension.
        dtype: Name of the dtype, such as "float32".
    """

    offset: int
    shape: tuple[int, ...]
    dtype: str


Placed = tuple[PlacedTensor, ...]
"""The tensors in a window."""


class ExportedMemory:
    """A window of GPU memory, in the process that allocates it."""

    is_alive = True
    """Always True; `Shared` needs this attribute."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._address = self._size = 0
        self.handle = ""
        """The handle by which the other process opens the memory; `make_room` changes it."""

    def make_room(self, nbytes: int) -> None:
        """Make the window at least `nbytes` bytes large; if it has to grow, its content is lost.

        Raises:
            harness.gpu.driver.DriverError: Too little memory is left, or processes cannot share
                memory.
        """
        if nbytes <= self._size:
            return
        self.close()
        self._address = self._driver.allocate(nbytes)
        self._size = nbytes
        self.handle = self._driver.export(self._address)

    def put(self, tensors: Sequence[Tensor], room: int = 0) -> Placed:
        """Copy tensors to the start of the window, and return where each of them is.

        The window is enlarged if necessary, so that `room` bytes are left behind the tensors.
        """
        self.make_room(end_of(tensors) + room)
        return _copied(self._address, tensors)

    def at(self, placed: Placed) -> tuple[Tensor, ...]:
        """Return tensors over the window's memory at these offsets; later writes overwrite them."""
        return _tensors(self._address, placed)

    def close(self) -> None:
        """Free the window's memory; `make_room` can allocate it again."""
        if self._size:
            self._driver.free(self._address)
        self._address = self._size = 0
        self.handle = ""


_windows: Shared[None, ExportedMemory] = Shared(lambda _: ExportedMemory())


def own_window() -> ExportedMemory:
    """Return the only window that this process exports; its device connections use it in turn."""
    return _windows.get(None)


class ImportedMemory:
    """A window of GPU memory, in the process that opens it by its handle."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._handle = ""
        self._address = 0

    def at(self, handle: str, placed: Placed) -> tuple[Tensor, ...]:
        """Return tensors over the window's memory at these offsets; later writes overwrite them."""
        self._open(handle)
        return _tensors(self._address, placed)

    def put(self, handle: str, tensors: Sequence[Tensor], behind: int = 0) -> Placed:
        """Copy tensors into the window, `behind` bytes after its start; return their offsets."""
        self._open(handle)
        return _copied(self._address, tensors, behind)

    def _open(self, handle: str) -> None:
        if handle == self._handle:
            return
        if self._handle:
            self._driver.close(self._address)
        self._handle, self._address = handle, self._driver.open(handle)


def room_for(nbytes: int, count: int) -> int:
    """Return a number of bytes that suffices for `count` tensors of `nbytes` bytes together."""
    return nbytes + count * _STEP


def end_of(tensors: Sequence[Tensor]) -> int:
    """Return an offset, in bytes, that lies behind all of these tensors in a window."""
    whole = room_for(sum(tensor.nbytes for tensor in tensors), len(tensors))
    return -(-whole // _STEP) * _STEP


def _copied(address: int, tensors: Sequence[Tensor], behind: int = 0) -> Placed:
    placed: list[PlacedTensor] = []
    offset = behind
    for tensor in tensors:
        if tensor.numel():
            there = tensor_at(address + offset, (tensor.nbytes,), torch.uint8)
            there.view(tensor.dtype).view(tensor.shape).copy_(tensor)
        placed.append(PlacedTensor(offset, tuple(tensor.shape), NAMES[tensor.dtype]))
        offset += -(-tensor.nbytes // _STEP) * _STEP
    torch.cuda.synchronize()
    return tuple(placed)


def _tensors(address: int, placed: Placed) -> tuple[Tensor, ...]:
    found = []
    for each in placed:
        dtype = DTYPES[each.dtype]
        nbytes = torch.Size(each.shape).numel() * dtype.itemsize
        if not nbytes:
            found.append(torch.empty(each.shape, dtype=dtype, device="cuda"))
            continue
        data = tensor_at(address + each.offset, (nbytes,), torch.uint8)
        found.append(data.view(dtype).view(each.shape))
    return tuple(found)
