"""Conversion of faulty memory accesses (out of bounds, misaligned, uninitialised) to findings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.finding import DeviceCheck, Finding, Severity
from harness.simulator.execution.codegen import BlockCompiler
from harness.simulator.execution.frame import ChunkMemory
from harness.simulator.hardware.fault import Fault
from harness.simulator.hardware.geometry import Placement
from harness.simulator.hardware.memory import Memory
from harness.simulator.instructions.operation import Array
from harness.simulator.lowering.program import Access
from harness.simulator.native.bindings import MISALIGNED, UNINITIALISED
from harness.simulator.ptx.ptx import TYPE_BYTES, Location
from harness.simulator.ptx.space import Space, resolved

_EXAMINED = 256
"""Most threads of one faulty access that are examined singly; the others count as the first."""
_PAGE = 2 << 20
"""Bytes of a page of device memory; on a GPU, memory beside an allocation is mapped that far."""
_SHARED_PIECE = 128
"""Granularity in bytes with which blocks receive shared memory."""
_HOST_ADDRESSES = range(0x5500_0000_0000, 1 << 47)
"""Addresses where Linux on x86-64 puts a program, its heap, its libraries and its stacks.

That memory belongs to the submission's process, which this process cannot inspect. A program with a
fixed load address has its heap below 2 GiB. Those addresses are excluded, because truncated
addresses (one half of 64 bits) are as small.
"""


@dataclass(frozen=True)
class _Described:
    """The description of one faulty access.

    Attributes:
        kind: Kind of mistake, such as "uninitialised load" or "past store".
        message: The message of the finding, in one line.
        allocation: Size in bytes of the nearest allocation in global memory, or None.
        offset: Offset of the access from the allocation's start in bytes, or None.
    """

    kind: str
    message: str
    allocation: int | None = None
    offset: int | None = None


class Faults:
    """Collector of the findings of a launch about memory accesses and warp masks.

    All mistakes of one kind at one source line give one finding, with the number of threads.
    """

    def __init__(
        self,
        compiler: BlockCompiler,
        memory: Memory,
        placement: Placement,
        private: ChunkMemory,
        others: Faults | None = None,
    ) -> None:
        """Collect the faults of one chunk (blocks that are simulated together).

        Args:
            compiler: The compiler of the kernel's basic blocks.
            memory: Global memory.
            placement: Order of blocks and threads.
            private: The chunk's shared and local memory, with the fault codes of access.c.
            others: Collector of other blocks of the same launch, whose findings this object
                shares; None for the first collector of the launch.
        """
        self._compiler = compiler
        self._memory = memory
        self._placement = placement
        self._private = private
        self._findings: dict[tuple[DeviceCheck, str | None, int | None, str], Finding] = (
            others._findings if others else {}
        )
        self._stops: list[Fault] = others._stops if others else []

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the launch so far, in order of discovery."""
        return tuple(self._findings.values())

    @property
    def fault(self) -> Fault | None:
        """The first fault that would have stopped the kernel on a real GPU, or None."""
        return self._stops[0] if self._stops else None

    def report(
        self,
        site: int,
        addresses: Array,
        active: npt.NDArray[np.bool_],
        first_block: int,
        *,
        shared_access: bool,
    ) -> None:
        """Record the faults of one access as findings, and clear the fault codes.

        access.c has stored a fault code for each thread.

        Args:
            site: Index of the access in `BlockCompiler.sites`.
            addresses: The address register's values, one for each thread or one for all.
            active: Mask of the threads that executed the access.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
            shared_access: True if one load served all `active` threads.
        """
        fault = self._private.fault
        faulty = np.flatnonzero(fault)
        codes = fault[faulty]
        fault[faulty] = 0
        step = self._compiler.sites[site]
        threads = np.flatnonzero(active)
        if shared_access:
            self._one(
                step, int(codes[0]), int(addresses[0]), int(threads[0]), first_block, len(threads)
            )
            return
        rest = max(len(faulty) - _EXAMINED, 0)
        for code, lane in zip(codes[:_EXAMINED], faulty[:_EXAMINED], strict=True):
            address = int(addresses[lane if len(addresses) > 1 else 0])
            self._one(step, int(code), address, int(lane), first_block, 1 + rest)
            rest = 0

    def note_access(
        self, step: Access, code: int, address: int, lane: int, first_block: int
    ) -> None:
        """Record one faulty access as a finding.

        Args:
            step: The access.
            code: Fault code of access.c.
            address: Base address, to which `step.offset` is added.
            lane: Number of the thread among the threads that are simulated together.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
        """
        self._one(step, code, address, lane, first_block, 1)

    def _one(
        self, step: Access, code: int, register: int, lane: int, first_block: int, count: int
    ) -> None:
        address = (register + step.offset) % 2**64
        check: DeviceCheck = "initcheck" if code == UNINITIALISED else "memcheck"
        found = self._describe(step, code, address)
        kind = (check, found.kind)
        where = (address, found.allocation, found.offset)
        self.note(kind, found.message, step.location, lane, first_block, count, where, step.kind)

    def note(
        self,
        kind: tuple[DeviceCheck, str],
        message: str,
        location: Location | None,
        lane: int,
        first_block: int,
        count: int,
        where: tuple[int, int | None, int | None] = (0, None, None),
        access: str = "",
        severity: Severity = "error",
    ) -> None:
        """Record a finding.

        If a finding with the same check, kind and source line exists, only its count is increased.

        Args:
            kind: The check, such as "memcheck", and the kind of mistake, such as "past store".
            message: The message of the finding, in one line.
            location: Source location, or None if it is unknown.
            lane: Number of the thread among the threads that are simulated together.
            first_block: Index, in the order of execution, of the first block of the chunk (blocks
                that are simulated together).
            count: Number of threads that made the mistake.
            where: The address (0 for none), the size in bytes of the nearest allocation, and the
                offset in bytes from its start.
            access: Kind of access, such as "load".
            severity: Severity of the finding.
        """
        file = location.file if location else None
        line = location.line if location else None
        check = kind[0]
        key = check, file, line, kind[1]
        present = self._findings.get(key)
        if present:
            reach = _reach(present, where)
            self._findings[key] = replace(present, count=present.count + count, reach=reach)
            return
        block, thread = divmod(lane, self._placement.geometry.threads)
        self._findings[key] = Finding(
            check,
            message,
            self._compiler.program.name,
            file,
            line,
            self._placement.block(first_block + block),
            self._placement.thread(thread),
            where[0],
            count,
            severity,
            allocation=where[1],
            offset=where[2],
            access=access,
            reach=None if where[2] is None else (where[2], where[2]),
        )

    def _describe(self, step: Access, code: int, address: int) -> _Described:
        width = TYPE_BYTES[step.type] * step.elements
        access = f"{width}-byte {step.kind}"
        if code == MISALIGNED:
            self._stops.append("misaligned address")
            message = f"misaligned {access}: address 0x{address:x} is not a multiple of {width}"
            return _Described(f"misaligned {step.kind}", message)
        space: Space | None = step.space
        if space is Space.GENERIC:
            space, address = resolved(address)
        if space is not Space.GLOBAL:
            return self._private_memory(access, code, space, address, width, step.kind)
        if code == UNINITIALISED:
            kind, message = f"uninitialised {step.kind}", f"{access} of memory that nothing wrote"
            found = self._memory.find(address)
            if not found:
                return _Described(kind, message)
            offset = address - found.start
            message += f": byte {offset} of a {found.size}-byte allocation"
            return _Described(kind, message, found.size, offset)
        outside = self._outside(access, address, width)
        return replace(outside, kind=f"{outside.kind} {step.kind}")

    def _private_memory(
        self, access: str, code: int, space: Space | None, address: int, width: int, kind: str
    ) -> _Described:
        name = "parameter" if space is Space.PARAM else space or "unknown"
        if code == UNINITIALISED:
            message = f"{access} of {name} memory that nothing wrote: byte {address}"
            return _Described(f"uninitialised {name} {kind}", message)
        # A GPU does not detect an access within the last piece of a block's shared memory. The
        # harness reports it, but does not count it as a fault that stops the kernel.
        size = self._private.sizes[space] if space else 0
        if space is Space.SHARED and address + width > -(-size // _SHARED_PIECE) * _SHARED_PIECE:
            self._stops.append("illegal address")
        if address >= 1 << 31:
            message = (
                f"{access} {2**32 - address & 2**32 - 1} bytes before the start of {name} memory"
            )
            return _Described(f"before {name} {kind}", message)
        message = (
            f"{access} {address + width - size} bytes past the end of {size} bytes of {name} memory"
        )
        return _Described(f"past {name} {kind}", message)

    def _outside(self, access: str, address: int, width: int) -> _Described:
        """Describe an access of global memory that is not within one live allocation.

        If the access would have stopped the kernel on a real GPU, record that, too.

        Args:
            access: Width and kind of the access, such as "4-byte store".
            address: Address of the first byte.
            width: Bytes of the access.
        """
        if not self._memory.contains(address):
            self._stops.append("illegal address")
            what = "a null pointer" if address < 4096 else "an address that is not device memory"
            if address in _HOST_ADDRESSES:
                what = "a host pointer"
            return _Described("foreign", f"{access} through {what}: 0x{address:x}")
        nearest = self._memory.nearest(address)
        if nearest is None:
            self._stops.append("illegal address")
            return _Described("unallocated", f"{access} of device memory that was never allocated")
        size = f"{nearest.size}-byte allocation"
        where = (nearest.size, address - nearest.start)
        if not nearest.is_live and nearest.start <= address < nearest.end:
            message = f"{access} at byte {where[1]} of a {size} that has been freed"
            return _Described("freed", message, *where)
        if max(nearest.start - address, address + width - nearest.end) > _PAGE:
            self._stops.append("illegal address")
        dead = "" if nearest.is_live else " that has been freed"
        if address < nearest.start:
            distance = nearest.start - address
            message = f"{access} {distance} bytes before the start of a {size}{dead}"
            return _Described("before", message, *where)
        distance = address + width - nearest.end
        message = f"{access} {distance} bytes past the end of a {size}{dead}"
        return _Described("past", message, *where)


def _reach(known: Finding, where: tuple[int, int | None, int | None]) -> tuple[int, int] | None:
    """Return the lowest and highest offset of a finding's accesses, including a new access.

    If the new access is at another allocation than the finding, the new access is ignored. The
    result is None if the finding has no range of offsets yet.

    Args:
        known: The finding.
        where: The address of the new access, the allocation's size, and the access's offset from
            the allocation's start.
    """
    address, _, offset = where
    if known.reach is None or known.offset is None or known.address is None or offset is None:
        return known.reach
    if address - offset != known.address - known.offset:
        return known.reach
    return min(known.reach[0], offset), max(known.reach[1], offset)
