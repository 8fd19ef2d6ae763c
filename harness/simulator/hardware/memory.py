"""The simulated device's memory, seen from Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.errors import UnsupportedCall
from harness.simulator.layout.memory import AllocationEntry

POISON = 0x7FB1DEAD
"""The 32-bit word that fresh device memory is filled with: a NaN as float32 and
1.25e307 as float64."""

_MOST_OF_SPARSE = 64 << 20
"""Bytes of sparse memory that anything but a kernel may see at a time: it would be there then."""


class OutOfDeviceMemory(MemoryError):
    """An allocation beyond the limit of live bytes, or beyond the range of addresses."""


class NotAnAllocation(ValueError):
    """The address is not one that the call can work with."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of device memory: `size` bytes from `start`; dead once it is freed."""

    start: int
    size: int
    is_live: bool
    serial: int
    is_owned: bool = False
    """Whether the host code that asked for it has to free it."""
    is_sparse: bool = False
    """Whether most of it is never there."""

    @property
    def end(self) -> int:
        """The first address past it."""
        return self.start + self.size


def _allocation(entry: AllocationEntry) -> Allocation:
    kind = bool(entry.owned), bool(entry.sparse)
    return Allocation(entry.start, entry.size, bool(entry.live), entry.serial, *kind)


_SIGNATURES: tuple[tuple[str, object, tuple[object, ...]], ...] = (
    ("sim_arena_init", ctypes.c_int, ()),
    ("sim_alloc", ctypes.c_void_p, (ctypes.c_size_t,)),
    ("sim_alloc_owned", ctypes.c_void_p, (ctypes.c_size_t,)),
    ("sim_free", ctypes.c_int, (ctypes.c_void_p,)),
    ("sim_set_sparse", None, (ctypes.c_int,)),
    ("sim_set_limit", None, (ctypes.c_uint64,)),
    ("sim_get_limit", ctypes.c_uint64, ()),
    ("sim_live_bytes", ctypes.c_uint64, ()),
    ("sim_peak_bytes", ctypes.c_uint64, ()),
    ("sim_reset_peak", None, ()),
    ("sim_contains", ctypes.c_int, (ctypes.c_void_p,)),
    ("sim_mark_written", None, (ctypes.c_void_p, ctypes.c_size_t)),
    ("sim_copy_written", None, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    ("sim_arena_base", ctypes.c_uint64, ()),
    ("sim_arena_size", ctypes.c_uint64, ()),
    ("sim_arena_shadow", ctypes.c_uint64, ()),
    ("sim_arena_table", ctypes.c_uint64, ()),
    ("sim_arena_table_count", ctypes.c_uint64, ()),
    ("sim_arena_join", ctypes.c_int, ()),
    ("sim_find", ctypes.POINTER(AllocationEntry), (ctypes.c_uint64,)),
)


class Memory:
    """Allocations of one simulated device, which the C library `library` keeps.

    The library is one shared object made of library.MACHINE_SOURCES;
    all instances over one library see the same memory.

    Raises:
        OSError: the system has no room for the range of addresses.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, result, arguments in _SIGNATURES:
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        if library.sim_arena_init():
            raise OSError("no room for the simulated device's range of addresses")
        self.base: int = library.sim_arena_base()
        self.size: int = library.sim_arena_size()
        self.shadow_base: int = library.sim_arena_shadow()

    @property
    def limit(self) -> int:
        """Most bytes that may be allocated at a time."""
        return int(self.library.sim_get_limit())

    @limit.setter
    def limit(self, nbytes: int) -> None:
        self.library.sim_set_limit(nbytes)

    def be_sparse(self, is_sparse: bool) -> None:
        """Let what is allocated from now on be there only where something touches it, or not.

        That is for allocations of 1 GiB and more. They hold zeros, and count as no bytes.
        """
        self.library.sim_set_sparse(is_sparse)

    @property
    def live_bytes(self) -> int:
        """Bytes allocated and not freed."""
        return int(self.library.sim_live_bytes())

    def leaks(self) -> list[Allocation]:
        """What host code asked for with cudaMalloc and has not freed."""
        return [allocation for allocation in self.live() if allocation.is_owned]

    @property
    def peak_bytes(self) -> int:
        """The most that were allocated at a time."""
        return int(self.library.sim_peak_bytes())

    def forget_peak(self) -> None:
        """Begin a new peak, with what is allocated now."""
        self.library.sim_reset_peak()

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """The address of `nbytes` fresh bytes, poisoned and not yet written.

        Args:
            nbytes: How many.
            owned: Whether host code that asked for them has to free them.

        Raises:
            OutOfDeviceMemory: there are not so many.
        """
        allocate = self.library.sim_alloc_owned if owned else self.library.sim_alloc
        address = allocate(nbytes)
        if not address:
            raise OutOfDeviceMemory(
                f"{nbytes} bytes asked for, {self.live_bytes} of {self.limit} in use"
            )
        return int(address)

    def free(self, address: int) -> None:
        """Gives an allocation back; its addresses are not used again.

        Raises:
            NotAnAllocation: `address` is not the start of a live allocation.
        """
        if self.library.sim_free(address):
            raise NotAnAllocation(f"0x{address:x} is not the start of a live allocation")

    def contains(self, address: int) -> bool:
        """Whether the address is one of the device's, allocated or not."""
        return bool(self.library.sim_contains(address))

    def find(self, address: int) -> Allocation | None:
        """The allocation, dead or alive, that holds the address."""
        below = self.at_or_below(address)
        return below if below and address < below.end else None

    def at_or_below(self, address: int) -> Allocation | None:
        """The last allocation, dead or alive, that starts at or below the address."""
        entry = self.library.sim_find(address)
        if not entry:
            return None
        found = entry.contents
        return _allocation(found)

    def nearest(self, address: int) -> Allocation | None:
        """The allocation, dead or alive, that holds the address or else is the closest to it."""
        below = self.at_or_below(address)
        following = below.serial + 1 if below else 0
        above = self._entry(following)
        if below is None or above is None:
            return below or above
        is_below = address < below.end or address - below.end < above.start - address
        return below if is_below else above

    def live(self) -> list[Allocation]:
        """All that is allocated, by address."""
        entries = map(self._entry, range(self.library.sim_arena_table_count()))
        return [entry for entry in entries if entry and entry.is_live]

    def _entry(self, serial: int) -> Allocation | None:
        if serial >= self.library.sim_arena_table_count():
            return None
        address = self.library.sim_arena_table() + serial * ctypes.sizeof(AllocationEntry)
        found = AllocationEntry.from_address(address)
        return _allocation(found)

    def join(self) -> None:
        """For a process forked from the memory's own: sees what that allocates from now on.

        Raises:
            OSError: the system refuses.
        """
        if self.library.sim_arena_join():
            raise OSError("the simulated device's memory cannot be shared")

    def views(
        self, address: int, nbytes: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """The bytes themselves, and for each whether it was written (1) or not (0).

        Raises:
            NotAnAllocation: the bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        shadow = self._bytes(self.shadow_base + address - self.base, nbytes)
        return self._bytes(address, nbytes), shadow

    def unwritten(self, address: int, nbytes: int) -> npt.NDArray[np.bool_]:
        """For each byte from `address` on, whether nothing has written it since it was allocated.

        Raises:
            NotAnAllocation: the bytes are not within one live allocation.
        """
        return np.equal(self.views(address, nbytes)[1], 0)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies bytes within the memory; they are as written as they were.

        Raises:
            NotAnAllocation: the bytes are not within live allocations.
        """
        self.require(target, nbytes)
        self.require(source, nbytes)
        ctypes.memmove(target, source, nbytes)
        self.library.sim_copy_written(target, source, nbytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Makes all bytes `value`; they count as written from now on.

        Raises:
            NotAnAllocation: the bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        ctypes.memset(address, value, nbytes)
        self.library.sim_mark_written(address, nbytes)

    def read(self, address: int, nbytes: int) -> bytes:
        """A copy of `nbytes` bytes, written or not.

        Raises:
            NotAnAllocation: the bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        return ctypes.string_at(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
        """Copies host bytes to the device; they count as written from now on.

        Raises:
            NotAnAllocation: the bytes are not within one live allocation.
        """
        self.require(address, len(data))
        ctypes.memmove(address, data, len(data))
        self.library.sim_mark_written(address, len(data))

    def require(self, address: int, nbytes: int) -> None:
        """Look whether bytes are there.

        Raises:
            NotAnAllocation: they are not within one live allocation.
            UnsupportedCall: they are more of a sparse one than shall ever be there.
        """
        found = self.find(address)
        if not found or not found.is_live or address + nbytes > found.end:
            raise NotAnAllocation(f"0x{address:x} + {nbytes} is not within a live allocation")
        if found.is_sparse and nbytes > _MOST_OF_SPARSE:
            raise UnsupportedCall(f"room for {nbytes} bytes")

    def _bytes(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
