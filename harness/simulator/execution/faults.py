"""From faulty accesses to findings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.finding import DeviceCheck, Finding
from harness.simulator.execution.codegen import Compiler
from harness.simulator.execution.frame import PrivateMemory
from harness.simulator.hardware.fault import Fault
from harness.simulator.hardware.geometry import Placement
from harness.simulator.hardware.memory import Memory
from harness.simulator.instructions.operation import Array
from harness.simulator.lowering.program import Access
from harness.simulator.native.bindings import MISALIGNED, UNINITIALISED
from harness.simulator.ptx.ptx import TYPE_BYTES, Location
from harness.simulator.ptx.space import Space, resolved

_EXAMINED = 256
"""Threads of one faulty access that are looked at one by one; more count as the first of them."""
_PAGE = 2 << 20
"""Bytes of a page of device memory: beside an allocation, there is memory that far."""
_SHARED_PIECE = 128
"""Bytes in which blocks get their shared memory."""
_HOST_ADDRESSES = range(0x5500_0000_0000, 1 << 47)
"""Where Linux on x86-64 puts a program, its heap, its libraries and its stacks. The memory there is
the submission process's, which nobody can look into from here. A program that is always loaded at
one address has its heap below 2 GiB, as halves of addresses are: nothing is said of those."""


@dataclass(frozen=True)
class _Described:
    """The kind of a mistake, a line about one, and how far from an allocation of which size."""

    kind: str
    message: str
    allocation: int | None = None
    offset: int | None = None


class Faults:
    """Collects the findings of one launch: one for each kind of mistake at each source line."""

    def __init__(
        self,
        compiler: Compiler,
        memory: Memory,
        placement: Placement,
        private: PrivateMemory,
        others: Faults | None = None,
    ) -> None:
        """`others` collects for other blocks of the same launch."""
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
        """What was found so far, in the order of discovery."""
        return tuple(self._findings.values())

    @property
    def fault(self) -> Fault | None:
        """What would have stopped real hardware first."""
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
        """Takes the faults that access.c has noted and clears them.

        `addresses` has the address register's values, one for each thread or one for all;
        `shared_access` tells that one access was made for all `active` threads.
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
        """Takes one fault, of the thread `lane` at `address`, which has no register."""
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
    ) -> None:
        """A finding; `kind` tells it from others at the same place.

        `where` is the address, 0 for none, and the nearest allocation and the offset there;
        `access` is what was done there.
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
        """An address that no live allocation holds, in device memory or not."""
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
    """How far a finding's accesses reach with another one, if that is at the same allocation."""
    address, _, offset = where
    if known.reach is None or known.offset is None or known.address is None or offset is None:
        return known.reach
    if address - offset != known.address - known.offset:
        return known.reach
    return min(known.reach[0], offset), max(known.reach[1], offset)
