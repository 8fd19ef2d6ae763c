"""The threads that execute one action (such as `mma.sync`) together, and their memory."""

# ruff: noqa: D102 - the protocol has the docstrings

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.simulator.actions.ordering import THREAD, Agent, Ordering
from harness.simulator.actions.transfers import (
    Array,
    BarrierDeliveries,
    Bytes,
    GroupedCopies,
    Lanes,
    Transfer,
)
from harness.simulator.execution.action_memory import ActionMemory
from harness.simulator.lowering.program import Perform
from harness.simulator.native.bindings import (
    BY_KERNEL,
    LOOKS,
    PENDING,
    READS,
    UNWRITTEN,
    WRITES,
)
from harness.simulator.ptx.space import Space


@dataclass
class ThreadsAtAction:
    """The threads that execute one action together; implements the protocol `ActiveThreads`.

    Attributes:
        memory: Memory that the threads access, with all checks.
        end: The action.
        lanes: The threads' numbers in their chunk (blocks that are simulated together).
        block_threads: Number of threads in a block.
    """

    memory: ActionMemory
    end: Perform
    lanes: Lanes
    block_threads: int

    @property
    def copies(self) -> GroupedCopies:
        return self.memory.copies

    @property
    def bulk_reads(self) -> GroupedCopies:
        return self.memory.bulk_reads

    @property
    def bulk_writes(self) -> GroupedCopies:
        return self.memory.bulk_writes

    @property
    def deliveries(self) -> BarrierDeliveries:
        return self.memory.deliveries

    @property
    def ordering(self) -> Ordering:
        return self.memory.ordering

    @property
    def library(self) -> ctypes.CDLL:
        return self.memory.compiler.native.library

    def native(self, name: str) -> Callable[..., None]:
        return self.memory.compiler.native.on_arrays(name)

    def read(
        self,
        space: Space,
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
            self.memory.tell(self.end, space, lanes, addresses, nbytes, align, by, READS)
        rows = np.empty((len(lanes), nbytes), np.uint8)
        function = self.memory.compiler.native.read_rows

        def call(head: tuple[Any, ...], faults: int) -> int:
            return int(function(*head, rows.ctypes.data, faults))

        self.memory.checked(self.end, space, lanes, addresses, nbytes, align, call, is_store=False)
        return rows

    def reads(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, by: Agent) -> None:
        self.memory.tell(self.end, space, lanes, addresses, nbytes, 0, by, READS)

    def looks(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        self.memory.tell(self.end, space, lanes, addresses, nbytes, 0, THREAD, LOOKS)

    def write(
        self,
        space: Space,
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
        self.memory.tell(self.end, space, lanes, addresses, nbytes, align, by, WRITES, rows)
        state = PENDING if by.is_asynchronous else BY_KERNEL
        self._set(space, lanes, addresses, nbytes, align, rows.ctypes.data, state)

    def count(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, *, is_store: bool
    ) -> None:
        if self.end.action.traffic != "none":
            self.memory.count(self.end, space, lanes, addresses, nbytes, is_store=is_store)

    def misuse(self, message: str, lanes: Lanes) -> None:
        self.memory.misuse(self.end, message, lanes)

    def forget(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, rows: Bytes | None = None
    ) -> None:
        self.memory.tell(self.end, space, lanes, addresses, nbytes, 0, THREAD, WRITES)
        data = None if rows is None else rows.ctypes.data
        self._set(space, lanes, addresses, nbytes, 0, data, UNWRITTEN)

    def _set(
        self,
        space: Space,
        lanes: Lanes,
        addresses: Array,
        nbytes: int,
        align: int,
        data: int | None,
        state: int,
    ) -> None:
        function = self.memory.compiler.native.write_rows

        def call(head: tuple[Any, ...], faults: int) -> int:
            return int(function(*head, data, faults, state))

        self.memory.checked(self.end, space, lanes, addresses, nbytes, align, call, is_store=True)

    def settle(self, transfer: Transfer) -> None:
        self.memory.settle(transfer)

    def deliver(self, transfer: Transfer) -> None:
        self.memory.deliver(transfer)

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        self.memory.entrust(transfer, agent)
