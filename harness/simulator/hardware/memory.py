"""The simulated device's global memory: allocation, and access from Python code."""

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
"""The most bytes of sparse memory that code other than a kernel may access at a time. Every page
that is accessed takes real memory."""


class OutOfDeviceMemory(MemoryError):
    """An allocation does not fit within the memory limit or the remaining addresses."""


class NotAnAllocation(ValueError):
    """An address is not the start of a live allocation, or bytes are not within one."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation of device memory.

    Attributes:
        start: Device address of the first byte.
        size: Size in bytes, as requested.
        is_live: False once the allocation is freed.
        serial: The number of allocations made before.
        is_owned: True if the submission's host code called cudaMalloc, and must free the memory.
        is_sparse: True if a page of memory exists only where the allocation has been accessed.
    """

    start: int
    size: int
    is_live: bool
    serial: int
    is_owned: bool = False
    is_sparse: bool = False

    @property
    def end(self) -> int:
        """The first address past the allocation."""
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
    """The global memory of one simulated device, which arena.c manages.

    All instances with the same library share one memory.

    Args:
        library: The shared object that `native.library.build_machine_library` builds.

    Attributes:
        library: The shared object.
        base: The first address of the device's address range.
        size: The length of the address range in bytes.
        shadow_base: The address of the shadow, which has one byte for each byte of the address
            range. A byte of the shadow is 0 if nothing has written the same byte of memory.

    Raises:
        OSError: The operating system has no room for the address range.
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
        """The most bytes that may be allocated at the same time."""
        return int(self.library.sim_get_limit())

    @limit.setter
    def limit(self, nbytes: int) -> None:
        self.library.sim_set_limit(nbytes)

    def be_sparse(self, is_sparse: bool) -> None:
        """Set whether later allocations of 1 GiB and more are sparse.

        A sparse allocation gets a page only where it is accessed. It holds zeros instead of
        `POISON`, and does not count against the limit.
        """
        self.library.sim_set_sparse(is_sparse)

    @property
    def live_bytes(self) -> int:
        """Bytes that are allocated and not freed."""
        return int(self.library.sim_live_bytes())

    def leaks(self) -> list[Allocation]:
        """Return the allocations that host code made with cudaMalloc and has not freed."""
        return [allocation for allocation in self.live() if allocation.is_owned]

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were allocated at the same time since the last `forget_peak`."""
        return int(self.library.sim_peak_bytes())

    def forget_peak(self) -> None:
        """Reset `peak_bytes` to the number of bytes that are allocated now."""
        self.library.sim_reset_peak()

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """Allocate memory, fill it with `POISON`, mark it as not written, and return its address.

        Args:
            nbytes: The size in bytes.
            owned: True if the submission's host code called cudaMalloc, and must free the memory.

        Raises:
            OutOfDeviceMemory: There is not enough memory.
        """
        allocate = self.library.sim_alloc_owned if owned else self.library.sim_alloc
        address = allocate(nbytes)
        if not address:
            raise OutOfDeviceMemory(
                f"{nbytes} bytes asked for, {self.live_bytes} of {self.limit} in use"
            )
        return int(address)

    def free(self, address: int) -> None:
        """Free the allocation that starts at `address`; its addresses are never reused.

        Raises:
            NotAnAllocation: `address` is not the start of a live allocation.
        """
        if self.library.sim_free(address):
            raise NotAnAllocation(f"0x{address:x} is not the start of a live allocation")

    def contains(self, address: int) -> bool:
        """Return whether the address is in the device's address range, allocated or not."""
        return bool(self.library.sim_contains(address))

    def find(self, address: int) -> Allocation | None:
        """Return the live or freed allocation that contains the address, or None."""
        below = self.at_or_below(address)
        return below if below and address < below.end else None

    def at_or_below(self, address: int) -> Allocation | None:
        """Return the last live or freed allocation that starts at or below the address, or None."""
        entry = self.library.sim_find(address)
        if not entry:
            return None
        found = entry.contents
        return _allocation(found)

    def nearest(self, address: int) -> Allocation | None:
        """Return the live or freed allocation that contains the address, or else the closest one.

        The result is None only if nothing has ever been allocated.
        """
        below = self.at_or_below(address)
        following = below.serial + 1 if below else 0
        above = self._entry(following)
        if below is None or above is None:
            return below or above
        is_below = address < below.end or address - below.end < above.start - address
        return below if is_below else above

    def live(self) -> list[Allocation]:
        """Return all live allocations in the order of their addresses."""
        entries = map(self._entry, range(self.library.sim_arena_table_count()))
        return [entry for entry in entries if entry and entry.is_live]

    def _entry(self, serial: int) -> Allocation | None:
        if serial >= self.library.sim_arena_table_count():
            return None
        address = self.library.sim_arena_table() + serial * ctypes.sizeof(AllocationEntry)
        found = AllocationEntry.from_address(address)
        return _allocation(found)

    def join(self) -> None:
        """Make allocations of the parent process accessible in this forked process.

        Raises:
            OSError: The operating system does not give this process access to the memory.
        """
        if self.library.sim_arena_join():
            raise OSError("the simulated device's memory cannot be shared")

    def views(
        self, address: int, nbytes: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Return the bytes at an address, and their shadow: 0 for bytes that nothing has written.

        Both arrays are views of the device's memory and not copies.

        Raises:
            NotAnAllocation: The bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        shadow = self._bytes(self.shadow_base + address - self.base, nbytes)
        return self._bytes(address, nbytes), shadow

    def unwritten(self, address: int, nbytes: int) -> npt.NDArray[np.bool_]:
        """Return, for each of `nbytes` bytes, whether nothing has written it since its allocation.

        Raises:
            NotAnAllocation: The bytes are not within one live allocation.
        """
        return np.equal(self.views(address, nbytes)[1], 0)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes within the device's memory; copies of unwritten bytes count as unwritten.

        Raises:
            NotAnAllocation: The source or the target is not within one live allocation.
        """
        self.require(target, nbytes)
        self.require(source, nbytes)
        ctypes.memmove(target, source, nbytes)
        self.library.sim_copy_written(target, source, nbytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set `nbytes` bytes to `value`, and mark them as written.

        Raises:
            NotAnAllocation: The bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        ctypes.memset(address, value, nbytes)
        self.library.sim_mark_written(address, nbytes)

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of `nbytes` bytes of the device's memory, even if nothing has written them.

        Raises:
            NotAnAllocation: The bytes are not within one live allocation.
        """
        self.require(address, nbytes)
        return ctypes.string_at(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
        """Copy `data` to the device's memory, and mark the bytes as written.

        Raises:
            NotAnAllocation: The target is not within one live allocation.
        """
        self.require(address, len(data))
        ctypes.memmove(address, data, len(data))
        self.library.sim_mark_written(address, len(data))

    def require(self, address: int, nbytes: int) -> None:
        """Check that `nbytes` bytes from `address` on are within one live allocation.

        Raises:
            NotAnAllocation: The bytes are not all within one live allocation.
            UnsupportedCall: The range has more than 64 MiB of a sparse allocation.
        """
        found = self.find(address)
        if not found or not found.is_live or address + nbytes > found.end:
            raise NotAnAllocation(f"0x{address:x} + {nbytes} is not within a live allocation")
        if found.is_sparse and nbytes > _MOST_OF_SPARSE:
            raise UnsupportedCall(f"an access to {nbytes} bytes of a sparse tensor")

    def _bytes(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
