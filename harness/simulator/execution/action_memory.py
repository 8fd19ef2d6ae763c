"""Checked memory access for actions (such as `cp.async`), and their unfinished copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from harness.simulator.actions.ordering import THREAD, Agent, Ordering, Unordered
from harness.simulator.actions.transfers import (
    Array,
    BarrierDeliveries,
    Bytes,
    GroupedCopies,
    Lanes,
    Transfer,
)
from harness.simulator.execution.codegen import BlockCompiler
from harness.simulator.execution.frame import ChunkMemory
from harness.simulator.layout.races import Actor
from harness.simulator.lowering.program import Access, Constant, Perform
from harness.simulator.native.bindings import (
    MISALIGNED,
    WAITED_READS,
    WAITED_WRITES,
    WRITES,
)
from harness.simulator.ptx.ptx import Immediate
from harness.simulator.ptx.space import Space

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults

_MOST_FAULTS = 256
"""Most faulty rows of one action that are reported."""


class ActionMemory:
    """Access to the memory of one chunk (blocks that are simulated together), with all checks.

    The object also keeps the chunk's unfinished asynchronous copies. All actions of the chunk
    (instructions such as `cp.async`) share it.

    Args:
        compiler: The compiler of the kernel's basic blocks, which also has the C functions.
        private: The chunk's shared memory, local memory and kernel arguments. It also has the
            pointers through which C functions find the race check and the counters.
        faults: Collector of faulty accesses.
        ordering: Receiver of waits and arrivals at mbarriers, or None if races are not checked.
    """

    def __init__(
        self,
        compiler: BlockCompiler,
        private: ChunkMemory,
        faults: Faults,
        ordering: Ordering | None,
    ) -> None:
        lanes = len(private.fault)
        self.compiler = compiler
        self.ordering: Ordering = ordering or Unordered()
        self.copies = GroupedCopies(lanes)
        self.bulk_reads = GroupedCopies(lanes)
        self.bulk_writes = GroupedCopies(lanes)
        self.deliveries = BarrierDeliveries()
        self.first_block = 0
        self._private = private
        self._faults = faults

    def finish(self) -> None:
        """Complete all unfinished asynchronous copies; called when all threads have ended."""
        for grouped in (self.copies, self.bulk_reads, self.bulk_writes):
            for transfer in grouped.drain():
                self.settle(transfer)
        for transfer in self.deliveries.drain():
            self.deliver(transfer)

    def settle(self, transfer: Transfer) -> None:
        """Complete an asynchronous copy after the threads that started it have waited for it.

        From then on, race detection treats the copy as an access of the threads that started it.
        """
        self.deliver(transfer)
        self._hand_over(transfer, THREAD)

    def deliver(self, transfer: Transfer) -> None:
        """Mark the destination of an asynchronous copy as written.

        Do nothing if `transfer` is the source of a copy, which is only read. This method does not
        inform race detection; `settle` and `entrust` do.
        """
        if not transfer.is_read:
            lanes, addresses = _plain(transfer.lanes, transfer.addresses)
            self.compiler.native.settle_rows(
                self._private.pointer,
                transfer.space.number,
                len(lanes),
                lanes.ctypes.data,
                addresses.ctypes.data,
                transfer.nbytes,
            )

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        """Make race detection treat an asynchronous copy as an access of `agent`.

        Until this call, the copy counts as an access of the threads that started it. Threads that
        later wait for the agent, such as for an mbarrier's phase, are ordered after the copy.
        """
        self._hand_over(transfer, agent)

    def _hand_over(self, transfer: Transfer, agent: Agent) -> None:
        if self._private.spaces.race:
            what = WAITED_READS if transfer.is_read else WAITED_WRITES
            actor = Actor(0, 0, agent.number, agent.clock)
            rows = transfer.space, transfer.lanes, transfer.addresses, transfer.nbytes
            self._race_rows(*rows, 1, None, actor, what)

    def checked(
        self,
        end: Perform,
        space: Space,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        call: Callable[..., int],
        *,
        is_store: bool,
    ) -> None:
        """Call a C function that accesses rows of memory, and report the faults that it found.

        A row is `nbytes` consecutive bytes that one thread accesses.

        Args:
            end: The action (an instruction such as `cp.async`) that accesses the rows.
            space: State space of the rows.
            lanes: For each row, the number of its thread among the threads simulated together.
            addresses: Address of each row.
            nbytes: Bytes of a row.
            align: Required alignment in bytes; 0 means `nbytes`.
            call: A Python function that calls the C function. Its first argument is a tuple of the
                leading arguments, which all functions of rows.c share. Its second argument is the
                address of an array with one fault byte for each row. It returns nonzero if there
                are faults.
            is_store: True for stores, False for loads.
        """
        faults = np.zeros(len(lanes), np.uint8)
        align = align or nbytes
        lanes, addresses = _plain(lanes, addresses)
        head = (
            *(self._private.pointer, space.number, len(lanes), lanes.ctypes.data),
            *(addresses.ctypes.data, nbytes, align),
        )
        if not call(head, faults.ctypes.data):
            return
        for row in np.flatnonzero(faults)[:_MOST_FAULTS]:
            code = int(faults[row])
            width = align if code == MISALIGNED else nbytes
            step = _access(end, space, width, is_store=is_store)
            lane, address = int(lanes[row]), int(addresses[row])
            self._faults.note_access(step, code, address, lane, self.first_block)

    def misuse(self, end: Perform, message: str, lanes: Lanes) -> None:
        """Report that threads used an action in a way that PTX leaves undefined.

        Args:
            end: The action (an instruction such as `cp.async`).
            message: The message of the finding, in one line.
            lanes: Numbers of the threads among the threads that are simulated together.
        """
        lane, count = int(lanes[0]), len(lanes)
        self._faults.note(
            ("memcheck", "misuse"), message, end.location, lane, self.first_block, count
        )

    def tell(
        self,
        end: Perform,
        space: Space,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        by: Agent,
        what: int,
        data: Bytes | None = None,
    ) -> None:
        """Report an action's access to rows of memory to the race check, before the access happens.

        A row is `nbytes` consecutive bytes that one thread accesses. Do nothing if races are not
        checked.

        Args:
            end: The action (an instruction such as `cp.async`) that accesses the rows.
            space: State space of the rows.
            lanes: For each row, the number of its thread among the threads simulated together.
            addresses: Address of each row.
            nbytes: Bytes of a row.
            align: Required alignment in bytes; 0 means `nbytes`.
            by: The agent that does the access: the thread or an asynchronous unit.
            what: Kind of the access, such as `READS` or `WRITES` of the native bindings.
            data: The bytes to write, of shape (rows, nbytes), or None if there are none.
        """
        if self._private.spaces.race:
            site = self.compiler.action_site(end, is_store=what == WRITES)
            actor = Actor(site, by.how, by.number, by.clock)
            self._race_rows(space, lanes, addresses, nbytes, align or nbytes, data, actor, what)

    def count(
        self,
        end: Perform,
        space: Space,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        *,
        is_store: bool,
    ) -> None:
        """Count an action's access to rows of memory; do nothing if counters are switched off.

        A row is `nbytes` consecutive bytes that one thread accesses.

        Args:
            end: The action (an instruction such as `cp.async`).
            space: State space of the rows.
            lanes: For each row, the number of its thread among the threads simulated together.
            addresses: Address of each row.
            nbytes: Bytes of a row.
            is_store: True for stores, False for loads.
        """
        if self._private.spaces.profile and len(lanes):
            lanes, addresses = _plain(lanes, addresses)
            self.compiler.native.profile_rows(
                self._private.pointer,
                space.number,
                len(lanes),
                lanes.ctypes.data,
                addresses.ctypes.data,
                nbytes,
                self.compiler.action_site(end, is_store=is_store),
                end.action.traffic == "bulk",
            )

    def _race_rows(
        self,
        space: Space,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        data: Bytes | None,
        actor: Actor,
        what: int,
    ) -> None:
        lanes, addresses = _plain(lanes, addresses)
        self.compiler.native.race_rows(
            self._private.pointer,
            space.number,
            len(lanes),
            lanes.ctypes.data,
            addresses.ctypes.data,
            nbytes,
            align,
            None if data is None else data.ctypes.data,
            ctypes.addressof(actor),
            what,
        )


def _plain(lanes: Lanes, addresses: Array) -> tuple[Lanes, Array]:
    return np.ascontiguousarray(lanes, np.int64), np.ascontiguousarray(addresses, np.uint64)


def _access(end: Perform, space: Space, nbytes: int, *, is_store: bool) -> Access:
    """Return an `Access` that describes an action's access of `nbytes` bytes in fault messages.

    The `Access` has the instruction and source location of the action (such as `cp.async`).
    """
    zero = Constant(Immediate(0))
    sources = (zero,) if is_store else ()
    return Access(space, "b8", nbytes, zero, 0, end.instruction, end.location, (), sources)
