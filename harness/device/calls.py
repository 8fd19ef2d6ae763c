"""Execution of the calls that a worker's CUDA runtime sends (see `simulator/layout/calls.py`).

A value can pass between host and device without a copy: as a kernel's argument, as a size, or in an
error's text. So the record of work counts the bytes of such values, too. Otherwise a submission
could compute its output on the host, and the record would contain no copy of the output.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

import torch

from harness.device.choices import Launches
from harness.device.executor import Executor
from harness.device.operators import LEAST_OF_A_CALL, Operators
from harness.device.record import CHOSEN, FROM_HOST, IN_MODULES, TO_HOST, Record
from harness.device.streams import Streams
from harness.device.values import Malformed, bytes_to_tell
from harness.finding import Finding
from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.errors import LibraryCall, UnsupportedCall
from harness.simulator.hardware.geometry import Extent
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.memory import NotAnAllocation, OutOfDeviceMemory
from harness.simulator.hardware.properties import MAX_GRID, DeviceProperties
from harness.simulator.layout.calls import (
    DEFAULT_STREAM,
    AllocateEntry,
    CopyEntry,
    FillEntry,
    MemoryEntry,
    Raised,
    RangeEntry,
    RuntimeCall,
    WelcomeEntry,
)
from harness.simulator.layout.runtime import DeviceEntry, KernelEntry, LaunchEntry
from harness.simulator.layout.structure import Structure
from harness.simulator.ptx.mangling import readable

S = TypeVar("S", bound=Structure)

_NUMBER = struct.Struct("<Q")
_MOST_MODULES = 1024
_MOST_FINDINGS = 16
_MOST_NAME_BYTES = 1 << 16
_MOST_READ_BYTES = 64 << 20
_MOST_STACK_BYTES = 512 << 10
_REWRITTEN = (
    "the host changed byte {} of {} bytes of pinned memory, which an asynchronous copy may read "
    "until the host has waited for it"
)
_RAISED: Sequence[tuple[type[Exception], Raised]] = (
    (UnsupportedCall, Raised.NotImplementedError),
    (LibraryCall, Raised.NotImplementedError),
    (NotImplementedError, Raised.NotImplementedError),
    (IndexError, Raised.IndexError),
    (TypeError, Raised.TypeError),
    (ValueError, Raised.ValueError),
)


class Refused(Exception):
    """The failure of a worker's call, with the error that is sent to the worker as the answer.

    Attributes:
        error: A cudaError_t, or the number of a Python exception in `Raised`.
        why: The reason, in words; empty if the error says enough.
    """

    def __init__(self, error: int, why: str = "") -> None:
        super().__init__(why)
        self.error = error
        self.why = why


class Calls:
    """The device's side of one worker's CUDA runtime: it executes the worker's calls.

    Attributes:
        streams: The worker's streams, which determine the order of its work.
        operators: The executor of torch's operators.
        exceeds_grid: True if a launch of the current step, such as one forward call, asked for more
            blocks along y or z than CUDA allows.
    """

    def __init__(
        self,
        executor: Executor,
        record: Record,
        trusted: Collection[str] | None = None,
        fresh: Collection[str] = (),
    ) -> None:
        """Start with no loaded modules.

        Args:
            executor: The device and its memory.
            record: The record of work, to which every call is added.
            trusted: SHA-256 digests of the fat binaries that may be loaded; None allows any.
            fresh: SHA-256 digests of the fat binaries that were built in the current step. The size
                of such a binary is recorded, because it may contain values computed on the host.
        """
        self.streams = Streams(executor.streams)
        self._memory = executor.memory
        self._device = executor.device
        self._record = record
        self._trusted = trusted
        self._fresh = fresh
        # Starts of the allocations that the trusted side holds; true if the worker has freed one.
        self._kept: dict[int, bool] = {}
        # Starts of the allocations that the trusted side made, until both sides have freed them.
        self._given: set[int] = set()
        self._launches = Launches(executor.memory)
        # Bits of choices in launches that do not make a byte yet.
        self._bits = 0
        self.operators = Operators(executor.memory, record)
        self._modules = 0
        self.exceeds_grid = False
        self._findings: list[Finding] = []
        self._stream = DEFAULT_STREAM
        self._answers: Mapping[RuntimeCall, Callable[[bytes], bytes]] = {
            RuntimeCall.HELLO: self._hello,
            RuntimeCall.ALLOCATE: self._allocate,
            RuntimeCall.FREE: self._free,
            RuntimeCall.RELEASE: self._release,
            RuntimeCall.READ: self._read,
            RuntimeCall.WRITE: self._write,
            RuntimeCall.COPY: self._copy,
            RuntimeCall.FILL: self._fill,
            RuntimeCall.FIND: self._find,
            RuntimeCall.MEMORY: self._tell_memory,
            RuntimeCall.MODULE: self._module,
            RuntimeCall.PARAMETERS: self._parameters,
            RuntimeCall.LAUNCH: self._launch,
            RuntimeCall.SYMBOL: self._symbol,
            RuntimeCall.DESCRIBE: self._describe,
            RuntimeCall.ALLOW_SHARED: self._allow_shared,
            RuntimeCall.OCCUPANCY: self._occupancy,
            RuntimeCall.UNSUPPORTED: self._unsupported,
            RuntimeCall.LIBRARY: self._library,
            RuntimeCall.OPERATOR: self._operator,
            RuntimeCall.SEED: self._seed,
            RuntimeCall.STREAM: self._new_stream,
            RuntimeCall.END_STREAM: self._end_stream,
            RuntimeCall.RECORD: self._record_event,
            RuntimeCall.WAIT: self._wait,
            RuntimeCall.SYNCHRONIZE: self._synchronize,
            RuntimeCall.REWRITTEN: self._rewritten,
        }

    def observe(self) -> tuple[Finding, ...]:
        """Return the findings that the worker has reported since the last call."""
        seen, self._findings = tuple(self._findings), []
        return seen

    def keep(self, address: int) -> None:
        """Keep an allocation until the worker and the supervisor have both freed it.

        The worker knows only the address of a tensor inside the allocation, and frees the
        allocation by that address.
        """
        self._kept[address] = False
        self._given.add(address)

    def let_go(self, address: int) -> None:
        """Record that the supervisor freed an allocation; free it if the worker freed it, too."""
        if self._kept.pop(address):
            self._given.discard(address)
            self._memory.free(address)

    def answer(self, number: int, stream: int, data: bytes) -> bytes:
        """Execute a worker's call, or keep its work until something waits for it.

        Args:
            number: Number of the call in `RuntimeCall`.
            stream: Number of the CUDA stream that the call is on.
            data: The call's payload, as `RuntimeCall` describes it.

        Returns:
            The payload of the answer.

        Raises:
            Malformed: The call does not exist, or `data` does not have the call's format.
            Refused: The call failed; the worker gets the error as the answer.
        """
        try:
            call = RuntimeCall(number)
        except ValueError:
            raise Malformed(f"an unknown call number {number}") from None
        self._stream = stream
        try:
            return self._answers[call](data)
        except (Malformed, Refused):
            raise
        except BaseException as error:
            raise Refused(*self._device.refused(error)) from None

    # Memory

    def _hello(self, data: bytes) -> bytes:
        _no_more(data)
        return bytes(
            WelcomeEntry(
                device_entry(self._device.properties), self._memory.base, self._memory.size
            )
        )

    def _allocate(self, data: bytes) -> bytes:
        asked = _entry(AllocateEntry, data)
        try:
            address = self._memory.allocate(asked.size, owned=bool(asked.owned))
        except OutOfDeviceMemory:
            # Memory whose release waits for pending work becomes free when that work is done.
            self.streams.synchronize()
            address = self._memory.allocate(asked.size, owned=bool(asked.owned))
        return _NUMBER.pack(address)

    def _free(self, data: bytes) -> bytes:
        address = _number(data)
        # cudaFree waits for all work, too.
        self.streams.synchronize()
        self._give_back(address)
        return b""

    def _give_back(self, address: int) -> None:
        address = self._start_of(address)
        if address in self._kept:
            self._kept[address] = True
        else:
            self._given.discard(address)
            self._memory.free(address)

    def _start_of(self, address: int) -> int:
        """Return the start of the supervisor's allocation that contains an address.

        The worker may free an allocation of the supervisor by any address inside it. An address
        outside the supervisor's allocations is returned unchanged.
        """
        found = self._memory.find(address)
        return found.start if found and found.start in self._given else address

    def _release(self, data: bytes) -> bytes:
        address = _number(data)
        # Pending work may still use it. torch's own allocator waits for streams in the same way.
        self.streams.when_idle(lambda: self._try_to_give_back(address))
        return b""

    def _try_to_give_back(self, address: int) -> None:
        # The worker does not wait for an answer, so an error has no receiver.
        with suppress(NotAnAllocation):
            self._give_back(address)

    def _read(self, data: bytes) -> bytes:
        asked = _entry(RangeEntry, data)
        if asked.size > _MOST_READ_BYTES:
            raise Malformed(f"a copy of {asked.size} bytes, more than allowed")
        with self.streams.at_once(self._stream, "a copy to the host"):
            found = self._memory.read(asked.start, asked.size)
        if self._memory.was_written(asked.start, asked.size):
            self._record.add("copy", TO_HOST, asked.size)
        return found

    def _write(self, data: bytes) -> bytes:
        address, values = _number(data[: _NUMBER.size]), data[_NUMBER.size :]
        self._memory.require(address, len(values))
        self._submit("a copy from the host", lambda: self._memory.write(address, values), len(data))
        self._came(bytes_to_tell(values))
        return b""

    def _copy(self, data: bytes) -> bytes:
        asked = _entry(CopyEntry, data)
        self._memory.require(asked.target, asked.size)
        self._memory.require(asked.source, asked.size)
        self._submit("a copy", lambda: self._memory.copy(asked.target, asked.source, asked.size))
        self._came()
        return b""

    def _fill(self, data: bytes) -> bytes:
        asked = _entry(FillEntry, data)
        value = asked.value & 0xFF
        self._memory.require(asked.start, asked.size)
        self._submit("cudaMemset", lambda: self._memory.fill(asked.start, value, asked.size))
        self._came()
        return b""

    def _submit(self, name: str, run: Callable[[], None], nbytes: int = 0) -> None:
        self.streams.submit(self._stream, name, run, nbytes)

    def _find(self, data: bytes) -> bytes:
        found = self._memory.find(_number(data))
        return bytes(
            RangeEntry(found.start, found.size) if found and found.is_live else RangeEntry()
        )

    def _tell_memory(self, data: bytes) -> bytes:
        if _number(data):
            self._memory.forget_peak()
        memory = self._memory
        return bytes(MemoryEntry(memory.limit, memory.live_bytes, memory.peak_bytes))

    def _came(self, count: int = 0) -> None:
        """Record how many bytes of information a call has brought from the host.

        `count` is the size of the data in the call. Each call counts at least `LEAST_OF_A_CALL`
        bytes, because the host also chooses the memory that the call uses. The bytes missing from
        `count` are recorded as `CHOSEN`.
        """
        self._record.add_bytes(FROM_HOST, count)
        self._record.add_bytes(CHOSEN, max(0, LEAST_OF_A_CALL - count))

    # Kernels

    def _module(self, image: bytes) -> bytes:
        digest = sha256(image).hexdigest()
        if self._trusted is not None and digest not in self._trusted:
            self._device.unsupported("device code that the harness has not compiled")
            raise Refused(CudaError.NOT_SUPPORTED)
        self._modules += 1
        if self._modules > _MOST_MODULES:
            raise Malformed(f"more than {_MOST_MODULES} modules")
        if digest in self._fresh:
            # A submission that has seen the inputs may have written anything into this module.
            self._record.add("copy", IN_MODULES, len(image))
        return _NUMBER.pack(self._device.load(image))

    def _parameters(self, data: bytes) -> bytes:
        module, name = _number(data[:8]), _name(data[8:])
        sizes = self._device.parameters(module, name)
        return struct.pack(f"<{len(sizes)}I", *sizes)

    def _launch(self, data: bytes) -> bytes:
        module, request, rest = _launch(data)
        name, nul, arguments = rest.partition(b"\0")
        kernel = _name(name)
        sizes = self._device.parameters(module, kernel)
        if not nul or len(arguments) != sum(sizes):
            raise Malformed(f"a launch with {len(arguments)} bytes of arguments, not {sum(sizes)}")
        _, y, z = request.grid
        self.exceeds_grid |= y > MAX_GRID[1] or z > MAX_GRID[2]
        self._device.check(module, kernel, request)
        self._submit(
            readable(kernel), lambda: self._device.launch(module, kernel, request, arguments)
        )
        extents = data[_NUMBER.size : len(data) - len(rest)]
        told = self._launches.told((module, name), extents, arguments, sizes)
        self._record.add_bytes(FROM_HOST, -(-told.values // 8))
        chosen, self._bits = divmod(self._bits + told.choices, 8)
        self._record.add_bytes(CHOSEN, chosen)
        return b""

    def _symbol(self, data: bytes) -> bytes:
        return _NUMBER.pack(self._device.symbol(_number(data[:8]), _name(data[8:])))

    def _describe(self, data: bytes) -> bytes:
        facts = self._device.describe(_number(data[:8]), _name(data[8:]))
        return bytes(KernelEntry(*(getattr(facts, name) for name in KernelEntry.fields)))

    def _allow_shared(self, data: bytes) -> bytes:
        self._device.allow_shared(_number(data[:8]), _name(data[16:]), _number(data[8:16]))
        return b""

    def _occupancy(self, data: bytes) -> bytes:
        module, request, name = _launch(data)
        return _NUMBER.pack(self._device.occupancy(module, _name(name), request))

    # The rest

    def _unsupported(self, data: bytes) -> bytes:
        self._device.unsupported(_name(data))
        return b""

    def _library(self, data: bytes) -> bytes:
        self._device.library(_name(data))
        return b""

    def _operator(self, data: bytes) -> bytes:
        try:
            with self.streams.at_once(self._stream, "an operator of torch"):
                return self.operators.run(data)
        except Malformed:
            raise
        except Exception as error:
            refused = self._raised(error)
            # The text of an error may contain values.
            self._record.add("copy", TO_HOST, len(refused.why))
            raise refused from None

    def _raised(self, error: Exception) -> Refused:
        """Return the error answer for an exception that one of torch's operators raised.

        If the device lacks the operator, or a library would do the operator's work, the exception
        is also stored for `Device.observe` to raise.
        """
        if isinstance(error, UnsupportedCall):
            self._device.unsupported(error.what)
        if isinstance(error, LibraryCall):
            self._device.library(error.function)
        if isinstance(error, OutOfDeviceMemory):
            return Refused(Raised.OutOfMemoryError, f"CUDA out of memory. {error}")
        raised = next((kind for base, kind in _RAISED if isinstance(error, base)), None)
        return Refused(raised or Raised.RuntimeError, str(error))

    def _seed(self, data: bytes) -> bytes:
        torch.manual_seed(_number(data))
        return b""

    # Streams

    def _new_stream(self, data: bytes) -> bytes:
        return _NUMBER.pack(self.streams.create(is_blocking=bool(_number(data))))

    def _end_stream(self, data: bytes) -> bytes:
        self.streams.destroy(_number(data))
        return b""

    def _record_event(self, data: bytes) -> bytes:
        _no_more(data)
        return _NUMBER.pack(self.streams.record(self._stream))

    def _wait(self, data: bytes) -> bytes:
        self.streams.wait(self._stream, _number(data))
        return b""

    def _synchronize(self, data: bytes) -> bytes:
        ticket = _number(data)
        if ticket:
            self.streams.wait_for(ticket)
        else:
            self.streams.synchronize()
        return b""

    def _rewritten(self, data: bytes) -> bytes:
        size, offset = _number(data[: _NUMBER.size]), _number(data[_NUMBER.size :])
        if len(self._findings) < _MOST_FINDINGS:
            self._findings.append(Finding("racecheck", _REWRITTEN.format(offset, size)))
        return b""


def device_entry(device: DeviceProperties) -> DeviceEntry:
    """Return the device's properties as the C structure that the worker's CUDA runtime reads."""
    return DeviceEntry(
        name=device.name.encode(),
        major=device.major,
        minor=device.minor,
        multiprocessors=device.multi_processor_count,
        l2_bytes=device.L2_cache_size,
        total_memory=device.total_memory,
        shared_per_block=device.shared_memory_per_block,
        shared_per_block_optin=device.shared_memory_per_block_optin,
        shared_per_multiprocessor=device.shared_memory_per_multiprocessor,
    )


def _no_more(data: bytes) -> None:
    if data:
        raise Malformed(f"{len(data)} bytes too many")


def _entry(kind: type[S], data: bytes) -> S:
    if len(data) != ctypes.sizeof(kind):
        raise Malformed(f"{len(data)} bytes for a {kind.c_name}")
    return kind.from_buffer_copy(data)


def _number(data: bytes) -> int:
    if len(data) != _NUMBER.size:
        raise Malformed(f"{len(data)} bytes for a number")
    return int(_NUMBER.unpack(data)[0])


def _name(data: bytes) -> str:
    if len(data) > _MOST_NAME_BYTES:
        raise Malformed(f"a name of {len(data)} bytes")
    return data.decode(errors="replace")


def _launch(data: bytes) -> tuple[int, LaunchRequest, bytes]:
    """Split a message into a module's number, the launch's configuration, and the other bytes."""
    end = _NUMBER.size + ctypes.sizeof(LaunchEntry)
    module, entry = _number(data[: _NUMBER.size]), _entry(LaunchEntry, data[_NUMBER.size : end])
    limit = entry.dynamic_shared_limit
    request = LaunchRequest(
        _extent(entry.grid),
        _extent(entry.block),
        entry.dynamic_shared,
        None if limit < 0 else limit,
        bool(entry.is_cooperative),
        _extent(entry.cluster),
        bool(entry.overlaps),
        min(entry.stack_bytes, _MOST_STACK_BYTES),
    )
    return module, request, data[end:]


def _extent(numbers: ctypes.Array[ctypes.c_uint]) -> Extent:
    x, y, z = numbers
    return x, y, z
