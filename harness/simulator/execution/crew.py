"""Memory as the threads that execute one action reach it: with every check that there is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.simulator.actions.action import Crew
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
from harness.simulator.execution.frame import PrivateMemory
from harness.simulator.lowering.program import Access, Constant, Perform
from harness.simulator.native.bindings import (
    BY_KERNEL,
    LOOKS,
    MISALIGNED,
    PENDING,
    READS,
    UNWRITTEN,
    WAITED_READS,
    WAITED_WRITES,
    WRITES,
    Actor,
)
from harness.simulator.ptx.ptx import Immediate

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults

_MOST_FAULTS = 256
"""Faulty rows of one action that are looked at."""


class Workplace:
    """What the actions of one chunk of blocks share: memory, and what is under way.

    Args:
        compiler: of the program.
        private: the chunk's memory; it also has who is told of accesses.
        faults: takes what is wrong with them.
        ordering: who is told of waiting, None where nobody looks for races.
    """

    def __init__(
        self,
        compiler: Compiler,
        private: PrivateMemory,
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

    def crew(self, end: Perform, lanes: Lanes, block_threads: int) -> Crew:
        """Threads that execute an action together."""
        return _Crew(self, end, lanes, block_threads)

    def finish(self) -> None:
        """Completes what is under way when all threads have ended."""
        for grouped in (self.copies, self.bulk_reads, self.bulk_writes):
            for transfer in grouped.drain():
                self.settle(transfer)
        for transfer in self.deliveries.drain():
            self.deliver(transfer)

    def settle(self, transfer: Transfer) -> None:
        """The threads that started the copy have waited for it."""
        self.deliver(transfer)
        self._hand_over(transfer, THREAD)

    def deliver(self, transfer: Transfer) -> None:
        """What a copy brings counts as written; who has waited for it is known otherwise."""
        if not transfer.is_read:
            lanes, addresses = _plain(transfer.lanes, transfer.addresses)
            self.compiler.native.settle_rows(
                self._private.pointer,
                transfer.space,
                len(lanes),
                lanes.ctypes.data,
                addresses.ctypes.data,
                transfer.nbytes,
            )

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        """Another agent than the threads that started a copy will tell when it is done."""
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
        space: int,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        call: Callable[..., int],
        *,
        is_store: bool,
    ) -> None:
        """Calls a function of rows.c, and reports what it found wrong.

        `call` gets the arguments that all of them begin with, and the faults to fill in.
        """
        faults = np.zeros(len(lanes), np.uint8)
        align = align or nbytes
        lanes, addresses = _plain(lanes, addresses)
        head = (
            *(self._private.pointer, space, len(lanes), lanes.ctypes.data),
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
        space: int,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        by: Agent,
        what: int,
        data: Bytes | None = None,
    ) -> None:
        """Tells the race check what is about to be done."""
        if self._private.spaces.race:
            site = self.compiler.action_site(end, is_store=what == WRITES)
            actor = Actor(site, by.how, by.number, by.clock)
            self._race_rows(space, lanes, addresses, nbytes, align or nbytes, data, actor, what)

    def count(
        self,
        end: Perform,
        space: int,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        *,
        is_store: bool,
    ) -> None:
        """Tells the counters of an access."""
        if self._private.spaces.profile and len(lanes):
            lanes, addresses = _plain(lanes, addresses)
            self.compiler.native.profile_rows(
                self._private.pointer,
                space,
                len(lanes),
                lanes.ctypes.data,
                addresses.ctypes.data,
                nbytes,
                self.compiler.action_site(end, is_store=is_store),
                end.action.traffic == "bulk",
            )

    def _race_rows(
        self,
        space: int,
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
            space,
            len(lanes),
            lanes.ctypes.data,
            addresses.ctypes.data,
            nbytes,
            align,
            None if data is None else data.ctypes.data,
            ctypes.addressof(actor),
            what,
        )


@dataclass
class _Crew:
    """The threads at one action; see actions.action.Crew."""

    workplace: Workplace
    end: Perform
    lanes: Lanes
    block_threads: int

    @property
    def copies(self) -> GroupedCopies:
        return self.workplace.copies

    @property
    def bulk_reads(self) -> GroupedCopies:
        return self.workplace.bulk_reads

    @property
    def bulk_writes(self) -> GroupedCopies:
        return self.workplace.bulk_writes

    @property
    def deliveries(self) -> BarrierDeliveries:
        return self.workplace.deliveries

    @property
    def ordering(self) -> Ordering:
        return self.workplace.ordering

    @property
    def library(self) -> ctypes.CDLL:
        return self.workplace.compiler.native.library

    def native(self, name: str) -> Callable[..., None]:
        return self.workplace.compiler.native.on_arrays(name)

    def read(
        self,
        space: int,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int = 0,
        by: Agent | None = THREAD,
        *,
        counts: bool = True,
    ) -> Bytes:
        if counts:
            self.count(space, lanes, addresses, nbytes, is_store=False)
        if by:
            self.workplace.tell(self.end, space, lanes, addresses, nbytes, align, by, READS)
        rows = np.empty((len(lanes), nbytes), np.uint8)
        function = self.workplace.compiler.native.read_rows

        def call(head: tuple[Any, ...], faults: int) -> int:
            return int(function(*head, rows.ctypes.data, faults))

        self.workplace.checked(
            self.end, space, lanes, addresses, nbytes, align, call, is_store=False
        )
        return rows

    def reads(self, space: int, lanes: Lanes, addresses: Array, nbytes: int, by: Agent) -> None:
        self.workplace.tell(self.end, space, lanes, addresses, nbytes, 0, by, READS)

    def looks(self, space: int, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        self.workplace.tell(self.end, space, lanes, addresses, nbytes, 0, THREAD, LOOKS)

    def write(
        self,
        space: int,
        lanes: Lanes,
        addresses: Array,
        rows: Bytes,
        align: int = 0,
        by: Agent = THREAD,
        *,
        counts: bool = True,
    ) -> None:
        rows = np.ascontiguousarray(rows)
        nbytes = rows.shape[1]
        if counts:
            self.count(space, lanes, addresses, nbytes, is_store=True)
        self.workplace.tell(self.end, space, lanes, addresses, nbytes, align, by, WRITES, rows)
        state = PENDING if by.is_asynchronous else BY_KERNEL
        self._set(space, lanes, addresses, nbytes, align, rows.ctypes.data, state)

    def count(
        self, space: int, lanes: Lanes, addresses: Array, nbytes: int, *, is_store: bool
    ) -> None:
        if self.end.action.traffic != "none":
            self.workplace.count(self.end, space, lanes, addresses, nbytes, is_store=is_store)

    def forget(self, space: int, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        self.workplace.tell(self.end, space, lanes, addresses, nbytes, 0, THREAD, WRITES)
        self._set(space, lanes, addresses, nbytes, 0, None, UNWRITTEN)

    def _set(
        self,
        space: int,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        data: int | None,
        state: int,
    ) -> None:
        function = self.workplace.compiler.native.write_rows

        def call(head: tuple[Any, ...], faults: int) -> int:
            return int(function(*head, data, faults, state))

        self.workplace.checked(
            self.end, space, lanes, addresses, nbytes, align, call, is_store=True
        )

    def settle(self, transfer: Transfer) -> None:
        self.workplace.settle(transfer)

    def deliver(self, transfer: Transfer) -> None:
        self.workplace.deliver(transfer)

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        self.workplace.entrust(transfer, agent)


def _plain(lanes: Lanes, addresses: Array) -> tuple[Lanes, Array]:
    return np.ascontiguousarray(lanes, np.int64), np.ascontiguousarray(addresses, np.uint64)


def _access(end: Perform, space: int, nbytes: int, *, is_store: bool) -> Access:
    zero = Constant(Immediate(0))
    sources = (zero,) if is_store else ()
    return Access(space, "b8", nbytes, zero, 0, end.instruction, end.location, (), sources)
