"""A GPU's memory, with a partial record of what wrote its content.

A GPU does not record which code wrote a byte. The writer of an element is inferred instead:

- This process itself runs operators, copies and fills. It records the ranges that they write.
- An element that still holds the poison pattern of fresh memory is unwritten.
- A kernel wrote everything else.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from harness.device.executor import KERNEL, OTHER
from harness.device.place import Place
from harness.device.tensor_maps import Encode, with_real_maps
from harness.finding import Finding
from harness.gpu.arena import Arena
from harness.gpu.driver import Driver, current_stream, tensor_at
from harness.gpu.stopwatch import Stopwatch
from harness.simulator.hardware.errors import UnsupportedCall
from harness.simulator.hardware.memory import POISON, Allocation
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.native.bindings import UNWRITTEN

_HIGH_HALF = POISON >> 16


@dataclass
class _Known:
    """The recorded writers of one allocation.

    Attributes:
        others: Ranges of addresses whose last writer was not a kernel, as pairs of start and end.
        is_given: True if the supervisor wrote the content. Launches then leave `others` unchanged.
            The supervisor itself compares the content after each call, and so notices any write of
            a kernel.
    """

    others: list[tuple[int, int]] = field(default_factory=list)
    is_given: bool = False


class GpuMemory:
    """An `executor.DeviceMemory` on a GPU."""

    torch_device = torch.device("cuda")

    def __init__(self, driver: Driver, limit: int, encode: Encode, stopwatch: Stopwatch) -> None:
        self._driver = driver
        self._arena = Arena(driver, limit, stopwatch)
        self._stopwatch = stopwatch
        self._encode = encode
        self.base, self.size = self._arena.base, self._arena.size
        self._known: dict[int, _Known] = {}
        self._has_launched = False

    @property
    def limit(self) -> int:
        """Largest number of bytes that may be allocated at the same time."""
        return self._arena.limit

    @property
    def live_bytes(self) -> int:
        """Number of bytes that are allocated and not freed."""
        return self._arena.live_bytes

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes allocated at the same time since the last `forget_peak`."""
        return self._arena.peak_bytes

    def forget_peak(self) -> None:
        """Reset `peak_bytes` to the number of bytes that are allocated now."""
        self._arena.peak_bytes = self._arena.live_bytes

    def be_sparse(self, is_sparse: bool) -> None:
        """Raise `UnsupportedCall` if `is_sparse`, because a GPU does not have sparse memory."""
        if is_sparse:
            raise UnsupportedCall("tensors that are only partly in memory")

    def leaks(self) -> list[Allocation]:
        """Return the allocations that host code made with cudaMalloc and has not freed."""
        return self._arena.leaks()

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """Allocate memory that holds the poison pattern; return its address.

        Raises what `Arena.allocate` raises.
        """
        address = self._arena.allocate(nbytes, owned=owned)
        self._known[address] = _Known()
        return address

    def free(self, address: int) -> None:
        """Free the allocation that starts at an address."""
        self._arena.free(address)
        del self._known[address]

    def add_variable(self, address: int, nbytes: int) -> None:
        """Record a device variable of a module as an allocation."""
        self._arena.add_variable(address, nbytes)
        # Its initial value was in the module, so no kernel wrote it.
        self._known.setdefault(address, _Known([(address, address + nbytes)]))

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that contains the address, or None if no allocation does."""
        return self._arena.find(address)

    def require(self, address: int, nbytes: int) -> None:
        """Raise `NotAnAllocation` unless the range of bytes is within one live allocation."""
        self._arena.within(address, nbytes)

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of `nbytes` bytes at an address, whether they were written or not."""
        self._arena.within(address, nbytes)
        data = ctypes.create_string_buffer(nbytes)
        with self.queueing(waits=True):
            self._driver.call(
                "cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
            )
        return data.raw

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes of the host to an address; they count as written from now on."""
        self._arena.within(address, len(data))
        real = with_real_maps(data, self._encode)
        with self.queueing(waits=True):
            self._driver.call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(address),
                ctypes.c_char_p(real),
                ctypes.c_size_t(len(real)),
            )
        self._wrote(address, len(data))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes within the memory, together with the record of what wrote them."""
        self._arena.within(target, nbytes)
        self._arena.within(source, nbytes)
        with self.queueing():
            self._driver.call(
                "cuMemcpyDtoDAsync_v2",
                ctypes.c_uint64(target),
                ctypes.c_uint64(source),
                ctypes.c_size_t(nbytes),
                current_stream(),
            )
        if self._is_by_others(source, nbytes):
            self._wrote(target, nbytes)
        else:
            self._forget(target, nbytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set `nbytes` bytes at an address to `value`; they count as written from now on."""
        self._arena.within(address, nbytes)
        with self.queueing():
            self._driver.call(
                "cuMemsetD8Async",
                ctypes.c_uint64(address),
                ctypes.c_ubyte(value),
                ctypes.c_size_t(nbytes),
                current_stream(),
            )
        self._wrote(address, nbytes)

    def was_written(self, address: int, nbytes: int) -> bool:
        """Return whether any of `nbytes` bytes may have been written since their allocation."""
        # Kernels leave no record, so after any launch the answer must be yes.
        return self._has_launched or any(
            start < address + nbytes and address < end
            for start, end in self._known_of(address).others
        )

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """Return bytes at an address as a uint8 tensor on the GPU, without a copy."""
        self._arena.within(address, nbytes)
        return tensor_at(address, (nbytes,), torch.uint8)

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Return a context for code whose work on the GPU counts towards the measured time.

        Args:
            waits: Whether the host waits for the GPU inside the context.
        """
        return self._stopwatch.queueing(waits=waits)

    def uncounted(self) -> AbstractContextManager[None]:
        """Return a context for code whose work does not count towards the measured time."""
        return self._stopwatch.uncounted()

    def poison_free(self) -> None:
        """Fill free memory with the poison pattern now, so that a timed call does not have to."""
        self._arena.poison_free()

    def give(self, place: Place) -> None:
        """Record that a tensor's values come from the supervisor, not from the submission."""
        self._known_of(place.address).is_given = True
        self._wrote(place.address, place.nbytes)

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Record that one of torch's operators wrote a tensor; see `DeviceMemory.mark`."""
        if of_kernels:
            self._forget(place.address, place.nbytes)
        # A range would also cover the gaps of a strided tensor, which the operator did not write.
        elif _is_without_gaps(place):
            self._wrote(place.address, place.nbytes)

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Record that a tensor was copied; see `DeviceMemory.mark_copy`."""
        del shape
        self.mark(target, of_kernels=source is not None and self.is_of_kernels(source))

    def is_of_kernels(self, place: Place) -> bool:
        """Return whether a kernel may have written any part of a tensor."""
        return self._has_launched and not self._is_by_others(place.address, place.nbytes)

    def launched(self, arguments: bytes) -> None:
        """Record a launch: the kernel may have written allocations to which its arguments point."""
        self._has_launched = True
        # The kernel may have written every allocation that an argument points into. A pointer may
        # lie in a structure, so every word is tried. What a kernel reaches otherwise, such as
        # through a pointer in memory, keeps its record.
        for at in range(0, len(arguments) - 7, 4):
            found = self.find(int.from_bytes(arguments[at : at + 8], "little"))
            known = self._known[found.start] if found else None
            if known and not known.is_given:
                known.others.clear()

    def writers(self, place: Place) -> Tensor:
        """Return a code for each element's writer, inferred from poison and the recorded ranges.

        The codes are those of `DeviceMemory.writers`.
        """
        if place.is_empty:
            return torch.full(place.shape, OTHER, dtype=torch.uint8, device=self.torch_device)
        width = DTYPES[place.dtype].itemsize
        flat = self.bytes_at(place.address, place.nbytes)
        found = torch.full(
            (place.nbytes // width,), KERNEL, dtype=torch.uint8, device=self.torch_device
        )
        found[_poisoned(flat, width)] = UNWRITTEN
        for start, end in self._known_of(place.address).others:
            first, last = (min(max(0, at - place.address), place.nbytes) for at in (start, end))
            found[first // width : -(-last // width)] = OTHER
        return found.as_strided(place.shape, place.strides)

    def overwritten(self) -> Iterable[Finding]:
        """Yield a finding for each allocation whose guard zone, after its end, was overwritten."""
        for allocation in self._arena.overwritten():
            message = f"wrote past the end of an allocation of {allocation.size} bytes"
            yield Finding("memcheck", message)

    def _known_of(self, address: int) -> _Known:
        found = self._arena.find(address)
        return self._known[found.start] if found else _Known()

    def _wrote(self, address: int, nbytes: int) -> None:
        """Record that something other than a kernel wrote `nbytes` bytes at an address."""
        others = self._known_of(address).others
        end = address + nbytes
        others[:] = [each for each in others if not (address <= each[0] and each[1] <= end)]
        others.append((address, end))

    def _forget(self, address: int, nbytes: int) -> None:
        """Record that a kernel wrote a range: cut it out of the ranges in `others`."""
        others = self._known_of(address).others
        end = address + nbytes
        left = [(start, min(last, address)) for start, last in others if start < address]
        right = [(max(start, end), last) for start, last in others if end < last]
        others[:] = [*left, *right]

    def _is_by_others(self, address: int, nbytes: int) -> bool:
        """Return whether something other than a kernel wrote all bytes of a range."""
        # The ranges are visited in order of their starts; a gap before `end` stops the advance.
        at, end = address, address + nbytes
        for start, last in sorted(self._known_of(address).others):
            if start <= at < last:
                at = last
        return at >= end


def _is_without_gaps(place: Place) -> bool:
    """Return whether a tensor's elements fill the memory from its first byte to its last."""
    return prod(place.shape) * DTYPES[place.dtype].itemsize >= place.nbytes


def _poisoned(flat: Tensor, width: int) -> Tensor:
    """Return a mask of the elements that still hold the poison pattern of fresh memory.

    An element has `width` bytes. An element of 2 bytes is marked only if it holds the upper half of
    the pattern, which is a NaN. The lower half is an ordinary number, which a kernel may have
    written. An element of 1 byte is never marked, because every byte is an ordinary value.
    """
    if width == 2:
        return flat.view(torch.int16) == _HIGH_HALF
    if width < 2:
        return torch.zeros(flat.shape, dtype=torch.bool, device=flat.device)
    words = flat.view(torch.int32).view(-1, width // 4)
    return (words == POISON).all(1)
