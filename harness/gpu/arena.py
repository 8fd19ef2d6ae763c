"""An allocator of GPU memory that adds a guard zone to each allocation and poisons new memory."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

import torch
from torch import Tensor

from harness.gpu.driver import Driver, DriverError, tensor_at
from harness.gpu.pages import Pages
from harness.gpu.stopwatch import Stopwatch
from harness.simulator.hardware.memory import (
    POISON,
    Allocation,
    NotAnAllocation,
    OutOfDeviceMemory,
)

GUARD_BYTES = 256
"""Size of the guard zone behind each allocation; its bytes must stay unchanged."""

_ADDRESSES = 1 << 40
_WANTED = 0x2000_0000_0000
# A page of the host. The worker lays its copies of managed and pinned memory over the device's
# addresses page by page, so no two blocks may share a page.
_LEAST_BLOCK = 4096
# Smaller blocks are cut from a slab of this size, because pages of their own would waste memory:
# the driver maps at least a granule of them.
_SLAB = 2 << 20
_WORD = 4


@dataclass(frozen=True)
class _Block:
    """A piece of memory that belongs to at most one allocation at a time.

    Attributes:
        start: First device address.
        size: Size in bytes.
        handle: Driver's handle of the block's pages, or None if the block is a part of a slab.
    """

    start: int
    size: int
    handle: int | None


class Arena:
    """An allocator of GPU memory in one reserved range of device addresses.

    A freed block is kept for later allocations of the same size, which then get the same address.

    Accesses past the end of an allocation are found in two ways. A changed guard zone shows a write
    just behind the allocation. Each block that has pages of its own is followed by addresses
    without memory, so an access farther behind faults.
    """

    def __init__(self, driver: Driver, limit: int, stopwatch: Stopwatch) -> None:
        """Reserve the range of addresses; all live allocations together may take `limit` bytes."""
        self._driver = driver
        self._stopwatch = stopwatch
        self._poisoned: set[int] = set()
        self._pages = Pages(driver, _ADDRESSES, _WANTED)
        self.base, self.size = self._pages.base, self._pages.size
        self.limit = limit
        self.live_bytes = self.peak_bytes = 0
        self._next = self.base
        self._serials = count()
        self._free: dict[int, list[_Block]] = defaultdict(list)
        self._blocks: dict[int, _Block] = {}
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._pattern: Tensor | None = None

    def allocate(self, nbytes: int, *, owned: bool) -> int:
        """Return the address of a new allocation; it and its guard zone are filled with `POISON`.

        Args:
            nbytes: Size in bytes.
            owned: Whether host code requested the memory with cudaMalloc and must free it.

        Raises:
            OutOfDeviceMemory: Fewer than `nbytes` bytes are left.
        """
        if nbytes <= 0 or self.live_bytes + nbytes > self.limit:
            raise OutOfDeviceMemory(
                f"{nbytes} bytes asked for, {self.live_bytes} of {self.limit} in use"
            )
        block = self._block(_size_of_block(nbytes, self._pages.granularity))
        # Filling takes device time, which must not count as the submission's.
        if block.start not in self._poisoned:
            with self._stopwatch.uncounted():
                self._poison(block)
        self._poisoned.discard(block.start)
        self._blocks[block.start] = block
        self._live[block.start] = Allocation(
            block.start, nbytes, is_live=True, serial=next(self._serials), is_owned=owned
        )
        insort(self._starts, block.start)
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return block.start

    def free(self, address: int) -> Allocation:
        """Free an allocation; return its record, in which `is_live` is now False.

        Raises:
            NotAnAllocation: `address` is not the start of a live allocation.
        """
        if address not in self._blocks:
            raise NotAnAllocation(f"0x{address:x} is not the start of a live allocation")
        freed, block = self._live.pop(address), self._blocks.pop(address)
        del self._starts[bisect_right(self._starts, address) - 1]
        self._free[block.size].append(block)
        self.live_bytes -= freed.size
        return replace(freed, is_live=False)

    def poison_free(self) -> None:
        """Fill all free blocks with `POISON` now, so that no timed call has to spend time on it."""
        for blocks in self._free.values():
            for block in blocks:
                if block.start not in self._poisoned:
                    self._poison(block)
                    self._poisoned.add(block.start)

    def add_variable(self, address: int, nbytes: int) -> None:
        """Record a `__device__` variable of a module as an allocation that is never freed."""
        if address not in self._live:
            self._live[address] = Allocation(
                address, nbytes, is_live=True, serial=next(self._serials)
            )
            insort(self._starts, address)

    def find(self, address: int) -> Allocation | None:
        """Return the live allocation that contains an address, or None."""
        at = bisect_right(self._starts, address) - 1
        found = self._live[self._starts[at]] if at >= 0 else None
        return found if found and address < found.end else None

    def within(self, address: int, nbytes: int) -> Allocation:
        """Return the live allocation that contains all of the `nbytes` bytes from an address.

        Raises:
            NotAnAllocation: No allocation contains all of these bytes.
        """
        found = self.find(address)
        if found is None or nbytes < 0 or address + nbytes > found.end:
            raise NotAnAllocation(f"0x{address:x} + {nbytes} is not within a live allocation")
        return found

    def leaks(self) -> list[Allocation]:
        """Return the live allocations that host code made with cudaMalloc and has not freed."""
        return [each for each in self._live.values() if each.is_owned]

    def overwritten(self) -> list[Allocation]:
        """Return the live allocations whose guard zone has changed, and restore these zones."""
        allocations = [self._live[start] for start in self._blocks]
        if not allocations:
            return []
        zones = torch.stack(list(map(self._guard, allocations)))
        if self._pattern is None:
            self._pattern = torch.full(
                (GUARD_BYTES // _WORD,), POISON, dtype=torch.int32, device="cuda"
            )
        changed = (zones != self._pattern).any(1).nonzero().flatten().tolist()
        for number in changed:
            self._guard(allocations[number]).copy_(self._pattern)
        return [allocations[number] for number in changed]

    def _guard(self, allocation: Allocation) -> Tensor:
        start = -(-allocation.end // _WORD) * _WORD
        return tensor_at(start, (GUARD_BYTES // _WORD,), torch.int32)

    def _poison(self, block: _Block) -> None:
        self._driver.call(
            "cuMemsetD32Async",
            ctypes.c_uint64(block.start),
            ctypes.c_uint(POISON),
            ctypes.c_size_t(block.size // _WORD),
            ctypes.c_void_p(),
        )

    def _block(self, size: int) -> _Block:
        if not self._free[size]:
            self._make(size)
        return self._free[size].pop()

    def _make(self, size: int) -> None:
        """Add at least one free block of `size` bytes."""
        if size < _SLAB:
            slab = self._block(_SLAB)
            self._poisoned.discard(slab.start)
            parts = range(slab.start, slab.start + _SLAB, size)
            # `pop` takes the last block, so a reversed list gives out ascending addresses.
            self._free[size] += [_Block(start, size, None) for start in reversed(parts)]
            return
        try:
            handle = self._pages.back(self._next, size)
        except DriverError:
            self._trim()
            try:
                handle = self._pages.back(self._next, size)
            except DriverError as error:
                raise OutOfDeviceMemory(f"{size} bytes: {error}") from None
        self._free[size].append(_Block(self._next, size, handle))
        # A gap of addresses without memory follows each block, so that an overrun of it faults.
        self._next += size + self._pages.granularity

    def _trim(self) -> None:
        """Give the memory of free blocks that have pages of their own back to the driver."""
        self._driver.call("cuCtxSynchronize")
        torch.cuda.empty_cache()
        for blocks in self._free.values():
            for block in _with_pages(blocks):
                blocks.remove(block)
                self._poisoned.discard(block.start)
                assert block.handle is not None  # noqa: S101 - it has pages
                self._pages.strip(block.start, block.size, block.handle)


def _with_pages(blocks: Iterable[_Block]) -> list[_Block]:
    return [block for block in blocks if block.handle is not None]


def _size_of_block(nbytes: int, granularity: int) -> int:
    """Return the size in bytes of the block for `nbytes` bytes and their guard zone.

    >>> [_size_of_block(nbytes, 2 << 20) for nbytes in (1, 3840, 3841, 1 << 20, 2 << 20)]
    [4096, 4096, 8192, 2097152, 4194304]
    """
    # The zone begins at the next whole word.
    wanted = -(-nbytes // _WORD) * _WORD + GUARD_BYTES
    # Small sizes are rounded to powers of two, so that a freed block fits later allocations of
    # other sizes. Large sizes are rounded to pages, which wastes less memory.
    if wanted <= _SLAB // 2:
        return max(_LEAST_BLOCK, 1 << (wanted - 1).bit_length())
    unit = max(_SLAB, granularity)
    return -(-wanted // unit) * unit
