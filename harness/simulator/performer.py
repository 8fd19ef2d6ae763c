"""Executes actions: gathers the threads that have to come together, and lets waiting ones wait."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.simulator.actions.action import Action
from harness.simulator.actions.transfers import (
    Array,
    BarrierDeliveries,
    Bytes,
    GroupedCopies,
    Lanes,
    Transfer,
)
from harness.simulator.codegen import Compiler, constant_array
from harness.simulator.errors import UnmetCondition
from harness.simulator.faults import Faults
from harness.simulator.frame import Frame, Placement, PrivateMemory
from harness.simulator.native import MISALIGNED
from harness.simulator.program import Access, Constant, Perform, Program
from harness.simulator.ptx import Immediate

Mask = npt.NDArray[np.bool_]

_MOST_EXPIRED = 200
"""Rounds of nothing but expired waits after which the kernel counts as stuck."""


class Performer:
    """The actions of one chunk of blocks.

    `parked` has, for each block of code, the threads that wait there for others of their group or
    for their condition.
    """

    def __init__(
        self,
        compiler: Compiler,
        frame: Frame,
        private: PrivateMemory,
        placement: Placement,
        faults: Faults,
    ) -> None:
        self._compiler = compiler
        self._frame = frame
        self._private = private
        self._placement = placement
        self._geometry = placement.geometry
        self._faults = faults
        self.parked: dict[int, Mask] = {}
        self._expired: dict[int, Mask] = {}
        self._expirations = 0
        self.first_block = 0
        self.grouped = GroupedCopies(frame.lanes)
        self.bulk = GroupedCopies(frame.lanes)
        self.deliveries = BarrierDeliveries()

    def start(self, first_block: int) -> None:
        """Makes everything fresh for other blocks."""
        self.parked, self._expired, self._expirations = {}, {}, 0
        self.first_block = first_block

    def finish(self) -> None:
        """Completes what is under way when all threads have ended."""
        for transfer in (*self.grouped.drain(), *self.bulk.drain(), *self.deliveries.drain()):
            self.land(transfer)

    def arrive(self, position: int, end: Perform, lanes: Mask, uniform: int) -> tuple[Mask, int]:
        """Executes the action for those who can go; the others are parked.

        Returns:
            The threads that go on, and `uniform` without the registers that were written.
        """
        parked = self.parked.pop(position, None)
        if parked is not None:
            lanes = lanes | parked
        going, _ = self._can_go(position, end, lanes, uniform)
        if not going.all():
            staying = lanes & ~going
            if staying.any():
                self.parked[position] = staying
        chosen = np.flatnonzero(going)
        if len(chosen):
            uniform = self._perform(end, chosen, uniform)
        return going, uniform

    def satisfied(self, program: Program, uniform: int) -> dict[int, Mask]:
        """Takes out the parked threads whose condition has come true, by block of code."""
        found = {}
        for position, lanes in list(self.parked.items()):
            end = program.blocks[position].end
            if isinstance(end, Perform) and end.action.ready:
                going, _ = self._can_go(position, end, lanes, uniform)
                if going.any():
                    found[position] = self.parked.pop(position)
        return found

    def expire(self, program: Program) -> dict[int, Mask]:
        """Takes out the threads whose wait is to end without success, by block of code."""
        found = {}
        self._expirations += 1
        if self._expirations <= _MOST_EXPIRED:
            for position in list(self.parked):
                end = program.blocks[position].end
                if isinstance(end, Perform) and end.action.ready:
                    lanes = self._whole(end.action, self.parked[position])
                    if lanes.any():
                        self._expired[position] = lanes
                        found[position] = self.parked.pop(position)
        return found

    def stuck(self, program: Program) -> tuple[UnmetCondition, Mask]:
        """The error for parked threads that nothing can let go, and those threads."""
        position, lanes = min(self.parked.items())
        end = program.blocks[position].end
        assert isinstance(end, Perform)  # noqa: S101
        lane = int(np.argmax(lanes))
        block, thread = divmod(lane, self._geometry.threads)
        mine = lanes.reshape(-1, self._geometry.threads)[block]
        error = UnmetCondition(
            program.name,
            end.instruction.text,
            self._placement.block(self.first_block + block),
            self._placement.thread(thread),
            int(np.count_nonzero(mine)),
            end.action.group,
            end.location,
        )
        return error, lanes

    def _whole(self, action: Action, lanes: Mask) -> Mask:
        """The threads whose group is complete."""
        size = action.group
        if size == 1:
            return lanes
        threads = self._geometry.threads
        whole = threads // size * size
        groups = lanes.reshape(-1, threads)[:, :whole].reshape(-1, whole // size or 0, size)
        result = np.zeros_like(lanes)
        if whole:
            complete = np.repeat(groups.all(2), size, axis=1)
            result.reshape(-1, threads)[:, :whole] = complete
        return result

    def _can_go(
        self, position: int, end: Perform, lanes: Mask, uniform: int
    ) -> tuple[Mask, list[Array]]:
        going = self._whole(end.action, lanes)
        ready = end.action.ready
        chosen = np.flatnonzero(going)
        if ready is None or not len(chosen):
            if len(chosen):
                self._expirations = 0
            return going, []
        crew = _Crew(self, end, chosen)
        inputs = self._inputs(end, chosen, uniform)
        true = ready(crew, *inputs)
        if true.any():
            self._expirations = 0
        expired = self._expired.pop(position, None)
        if expired is not None:
            true = true | expired[chosen]
        going = np.zeros_like(lanes)
        going[chosen[true]] = True
        return going, inputs

    def _perform(self, end: Perform, lanes: Lanes, uniform: int) -> int:
        inputs = self._inputs(end, lanes, uniform)
        results = end.action.run(_Crew(self, end, lanes), *inputs)
        slots = self._compiler.slots
        for register, kind, values in zip(
            end.outputs, end.action.output_kinds, results or (), strict=True
        ):
            if register < 0:
                continue
            slot = slots.number(register, kind)
            self._frame.extend(slots)
            if uniform >> register & 1:
                plain = slots.number(register, _plain(slots.bits[register]))
                self._frame.extend(slots)
                self._frame.varying[plain][...] = self._frame.uniform[plain]
                uniform &= ~(1 << register)
            self._frame.varying[slot][lanes] = values
        return uniform

    def _inputs(self, end: Perform, lanes: Lanes, uniform: int) -> list[Array]:
        values: list[Array] = []
        slots = self._compiler.slots
        for source, offset, declared in zip(
            end.inputs, end.offsets, end.action.inputs, strict=True
        ):
            if isinstance(source, Constant):
                constant = constant_array(source.value, declared.kind or "u32")
                value = np.repeat(constant, len(lanes), axis=0)
            else:
                kind = declared.kind or _plain(slots.bits[source])
                if kind == "u64" and slots.bits[source] == 32:
                    kind = "b32"
                slot = slots.number(source, kind)
                self._frame.extend(slots)
                if uniform >> source & 1:
                    value = np.repeat(self._frame.uniform[slot], len(lanes), axis=0)
                else:
                    value = self._frame.varying[slot][lanes]
            if offset is not None:
                value = value.astype(np.uint64) + np.uint64(offset % 2**64)
            values.append(value)
        return values

    # Memory

    def land(self, transfer: Transfer) -> None:
        """Writes what a copy brings. Its faults were found when it was started."""
        faults = np.zeros(len(transfer.lanes), np.uint8)
        self._rows(
            self._compiler.native.write_rows, transfer.space, transfer.lanes, transfer.addresses,
            transfer.data, 1, faults,
        )  # fmt: skip

    def checked(
        self,
        function: Any,
        end: Perform,
        space: int,
        lanes: Lanes,
        addresses: Array,
        rows: Bytes | int,
        align: int,
        *,
        is_store: bool,
    ) -> None:
        """Calls a function of rows.c for rows of memory, and reports what it found wrong."""
        faults = np.zeros(len(lanes), np.uint8)
        nbytes = rows if isinstance(rows, int) else rows.shape[1]
        if not self._rows(function, space, lanes, addresses, rows, align or nbytes, faults):
            return
        for row in np.flatnonzero(faults)[:256]:
            code = int(faults[row])
            width = align if code == MISALIGNED and align else nbytes
            step = _access(end, space, width, is_store=is_store)
            address = int(addresses[row])
            self._faults.note_access(step, code, address, int(lanes[row]), self.first_block)

    def _rows(
        self,
        function: Any,
        space: int,
        lanes: Lanes,
        addresses: Array,
        rows: Bytes | int,
        align: int,
        faults: Bytes,
    ) -> int:
        lanes = np.ascontiguousarray(lanes, np.int64)
        addresses = np.ascontiguousarray(addresses, np.uint64)
        if isinstance(rows, int):
            nbytes, data = rows, None
        else:
            nbytes, data = rows.shape[1], rows.ctypes.data
        return int(
            function(
                self._private.pointer,
                space,
                len(lanes),
                lanes.ctypes.data,
                addresses.ctypes.data,
                nbytes,
                align,
                data,
                faults.ctypes.data,
            )
        )

    @property
    def block_threads(self) -> int:
        """Threads of one block."""
        return self._geometry.threads

    @property
    def compiler(self) -> Compiler:
        """The compiler, for its native functions."""
        return self._compiler


@dataclass
class _Crew:
    """The threads at one action; see actions.action.Crew."""

    performer: Performer
    end: Perform
    lanes: Lanes

    @property
    def block_threads(self) -> int:
        return self.performer.block_threads

    @property
    def copies(self) -> GroupedCopies:
        return self.performer.grouped

    @property
    def bulk_copies(self) -> GroupedCopies:
        return self.performer.bulk

    @property
    def deliveries(self) -> BarrierDeliveries:
        return self.performer.deliveries

    @property
    def library(self) -> ctypes.CDLL:
        return self.performer.compiler.native.library

    def native(self, name: str) -> Callable[..., None]:
        return self.performer.compiler.native.on_arrays(name)

    def read(
        self, space: int, lanes: Lanes, addresses: Array, nbytes: int, align: int = 0
    ) -> Bytes:
        rows = np.empty((len(lanes), nbytes), np.uint8)
        function = self.performer.compiler.native.read_rows
        self.performer.checked(
            function, self.end, space, lanes, addresses, rows, align, is_store=False
        )
        return rows

    def write(
        self, space: int, lanes: Lanes, addresses: Array, rows: Bytes, align: int = 0
    ) -> None:
        function = self.performer.compiler.native.write_rows
        rows = np.ascontiguousarray(rows)
        self.performer.checked(
            function, self.end, space, lanes, addresses, rows, align, is_store=True
        )

    def expect(
        self, space: int, lanes: Lanes, addresses: Array, nbytes: int, align: int = 0
    ) -> None:
        function = self.performer.compiler.native.write_rows
        self.performer.checked(
            function, self.end, space, lanes, addresses, nbytes, align, is_store=True
        )

    def land(self, transfer: Transfer) -> None:
        self.performer.land(transfer)


def _access(end: Perform, space: int, nbytes: int, *, is_store: bool) -> Access:
    zero = Constant(Immediate(0))
    sources = (zero,) if is_store else ()
    return Access(
        space, "b8", nbytes, zero, 0, end.instruction, end.location, (), sources
    )  # fmt: skip


def _plain(bits: int) -> str:
    return "pred" if bits == 1 else f"b{bits}"
