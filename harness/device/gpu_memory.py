"""A GPU's memory, and what is known of who wrote it.

There is no shadow. Operators, copies and fills are this process's own, so that it knows what they
wrote; what is no more the poison that was put there, and what none of them wrote, a kernel did.
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
    """Of one allocation.

    Attributes:
        others: Ranges of addresses that something else than a kernel wrote last.
        is_given: Whether the trusted side put it there, which sees whether it changes.
    """

    others: list[tuple[int, int]] = field(default_factory=list)
    is_given: bool = False


class GpuMemory:
    """As `executor.DeviceMemory` has it."""

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
        """Most bytes that may be allocated at a time."""
        return self._arena.limit

    @property
    def live_bytes(self) -> int:
        """Bytes allocated and not freed."""
        return self._arena.live_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that were allocated at a time."""
        return self._arena.peak_bytes

    def forget_peak(self) -> None:
        """Begin a new peak, with what is allocated now."""
        self._arena.peak_bytes = self._arena.live_bytes

    def be_sparse(self, is_sparse: bool) -> None:
        """Nothing: all memory is there; raises `UnsupportedCall` where that is too much."""
        if is_sparse:
            raise UnsupportedCall("memory that is not there")

    def leaks(self) -> list[Allocation]:
        """What host code asked for with cudaMalloc and has not freed."""
        return self._arena.leaks()

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """The address of fresh bytes; raises as the arena does."""
        address = self._arena.allocate(nbytes, owned=owned)
        self._known[address] = _Known()
        return address

    def free(self, address: int) -> None:
        """Give an allocation back."""
        self._arena.free(address)
        del self._known[address]

    def add_variable(self, address: int, nbytes: int) -> None:
        """Let a module's variable count as an allocation."""
        self._arena.add_variable(address, nbytes)
        # What it begins with was in the module.
        self._known.setdefault(address, _Known([(address, address + nbytes)]))

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds the address."""
        return self._arena.find(address)

    def require(self, address: int, nbytes: int) -> None:
        """Nothing, where the bytes are within one live allocation."""
        self._arena.within(address, nbytes)

    def read(self, address: int, nbytes: int) -> bytes:
        """A copy of bytes, written or not."""
        self._arena.within(address, nbytes)
        data = ctypes.create_string_buffer(nbytes)
        with self.queueing(waits=True):
            self._driver.call(
                "cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
            )
        return data.raw

    def write(self, address: int, data: bytes) -> None:
        """Copy host bytes to the device."""
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
        """Copy bytes within the memory."""
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
        """Make all bytes `value`."""
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
        """Whether anything has written any of these bytes since they were allocated."""
        return self._has_launched or any(
            start < address + nbytes and address < end
            for start, end in self._known_of(address).others
        )

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """The bytes themselves."""
        self._arena.within(address, nbytes)
        return tensor_at(address, (nbytes,), torch.uint8)

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Around work of a call; `waits` where the host waits for the device."""
        return self._stopwatch.queueing(waits=waits)

    def uncounted(self) -> AbstractContextManager[None]:
        """Around work whose time is not the call's."""
        return self._stopwatch.uncounted()

    def poison_free(self) -> None:
        """Let what is allocated next be fresh without any work."""
        self._arena.poison_free()

    def give(self, place: Place) -> None:
        """Let a tensor count as written by the trusted side."""
        self._known_of(place.address).is_given = True
        self._wrote(place.address, place.nbytes)

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Let a tensor count as written by an operator."""
        if of_kernels:
            self._forget(place.address, place.nbytes)
        elif _is_without_gaps(place):
            self._wrote(place.address, place.nbytes)

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Let a tensor be as written as what was copied to it."""
        del shape
        self.mark(target, of_kernels=source is not None and self.is_of_kernels(source))

    def is_of_kernels(self, place: Place) -> bool:
        """Whether a kernel can have written any of it."""
        return self._has_launched and not self._is_by_others(place.address, place.nbytes)

    def launched(self, arguments: bytes) -> None:
        """Know that a kernel has run that was given these words."""
        self._has_launched = True
        for at in range(0, len(arguments) - 7, 4):
            found = self.find(int.from_bytes(arguments[at : at + 8], "little"))
            known = self._known[found.start] if found else None
            if known and not known.is_given:
                known.others.clear()

    def writers(self, place: Place) -> Tensor:
        """Who wrote each element, as far as poison and the own record tell."""
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
        """Findings of what was written behind allocations."""
        for allocation in self._arena.overwritten():
            message = f"wrote past the end of an allocation of {allocation.size} bytes"
            yield Finding("memcheck", message)

    def _known_of(self, address: int) -> _Known:
        found = self._arena.find(address)
        return self._known[found.start] if found else _Known()

    def _wrote(self, address: int, nbytes: int) -> None:
        """Note that something else than a kernel did."""
        others = self._known_of(address).others
        end = address + nbytes
        others[:] = [each for each in others if not (address <= each[0] and each[1] <= end)]
        others.append((address, end))

    def _forget(self, address: int, nbytes: int) -> None:
        """Note that what is there now is a kernel's work."""
        others = self._known_of(address).others
        end = address + nbytes
        left = [(start, min(last, address)) for start, last in others if start < address]
        right = [(max(start, end), last) for start, last in others if end < last]
        others[:] = [*left, *right]

    def _is_by_others(self, address: int, nbytes: int) -> bool:
        """Whether all of it was written by something else than a kernel."""
        at, end = address, address + nbytes
        for start, last in sorted(self._known_of(address).others):
            if start <= at < last:
                at = last
        return at >= end


def _is_without_gaps(place: Place) -> bool:
    return prod(place.shape) * DTYPES[place.dtype].itemsize >= place.nbytes


def _poisoned(flat: Tensor, width: int) -> Tensor:
    """Which elements of so many bytes are still as fresh memory is.

    Of narrow ones only those that are half of a NaN: the other half is a number like any other.
    """
    if width == 2:
        return flat.view(torch.int16) == _HIGH_HALF
    if width < 2:
        return torch.zeros(flat.shape, dtype=torch.bool, device=flat.device)
    words = flat.view(torch.int32).view(-1, width // 4)
    return (words == POISON).all(1)
