"""Memory as actions access it, with all checks, and the copies under way."""

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
from harness.simulator.execution.codegen import Compiler
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
    """Memory and copies under way, shared by the actions of one chunk of blocks.

    Args:
        compiler: The program's compiler, which also has the native functions.
        private: The chunk's memory, with pointers to the race check and the counters.
        faults: Collector of faulty accesses.
        ordering: Receiver of waits and arrivals, or None where races are not checked.
    """

    def __init__(
        self,
        compiler: Compiler,
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
        """Complete the copies under way when all threads have ended."""
        for grouped in (self.copies, self.bulk_reads, self.bulk_writes):
            for transfer in grouped.drain():
                self.settle(transfer)
        for transfer in self.deliveries.drain():
            self.deliver(transfer)

    def settle(self, transfer: Transfer) -> None:
        """Complete a copy for which the threads that started it have waited."""
        self.deliver(transfer)
        self._hand_over(transfer, THREAD)

    def deliver(self, transfer: Transfer) -> None:
        """Mark the destination of a copy as written.

        Race detection does not learn from this which threads have waited for the copy.
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
        """Make `agent` responsible for a copy, instead of the threads that started it.

        The agent, such as an mbarrier's phase, later announces that the copy is complete.
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
        """Call a function of rows.c and report the faults that it found.

        Args:
            end: The action.
            space: State space of the rows.
            lanes: Thread of each row.
            addresses: Address of each row.
            nbytes: Bytes of a row.
            align: Required alignment in bytes; 0 for `nbytes`.
            call: Function that receives the leading arguments common to rows.c and the address of
                the fault bytes. It returns nonzero if there are faults.
            is_store: True for stores.
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
        """Report an access that is about to happen to the race check."""
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
        """Report an access to the counters."""
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
    """Return the action's access to `nbytes` bytes in the form that fault messages need."""
    zero = Constant(Immediate(0))
    sources = (zero,) if is_store else ()
    return Access(space, "b8", nbytes, zero, 0, end.instruction, end.location, (), sources)
