"""The interface of an action: an instruction that needs more than its own thread's registers.

Such an instruction ends a basic block. Its function sees all threads that execute it at once, as
`ActiveThreads`. It reads and writes memory through them, with the same checks as ordinary loads and
stores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from harness.simulator.actions.ordering import THREAD, Agent, Ordering
from harness.simulator.actions.transfers import (
    Array,
    BarrierDeliveries,
    Bytes,
    GroupedCopies,
    Lanes,
    Transfer,
)
from harness.simulator.ptx.ptx import Instruction, Operand
from harness.simulator.ptx.space import Space


class ActiveThreads(Protocol):
    """The threads that execute one instruction together, and their memory.

    A row is a number of consecutive bytes of memory. Each row belongs to one thread. The thread
    selects the block whose shared memory is accessed, and a finding names it.
    """

    @property
    def lanes(self) -> Lanes:
        """The threads' numbers in the chunk, ascending."""

    @property
    def block_threads(self) -> int:
        """The number of threads in a block."""

    @property
    def copies(self) -> GroupedCopies:
        """The unfinished copies of `cp.async`."""

    @property
    def bulk_reads(self) -> GroupedCopies:
        """The unfinished reads of bulk copies in groups."""

    @property
    def bulk_writes(self) -> GroupedCopies:
        """The unfinished writes of bulk copies in groups."""

    @property
    def deliveries(self) -> BarrierDeliveries:
        """The unfinished copies that mbarriers count."""

    @property
    def ordering(self) -> Ordering:
        """The receiver of arrivals and waits, for race detection."""

    @property
    def library(self) -> ctypes.CDLL:
        """The simulator's C functions."""

    def native(self, name: str) -> Callable[..., None]:
        """Return a function of arithmetic.c as `function(*inputs, output)` on arrays."""

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
        """Return rows of `nbytes` bytes, with poison in place of bytes that cannot be read.

        Args:
            space: The state space of the addresses.
            lanes: The thread of each row.
            addresses: The first byte of each row.
            nbytes: The length of a row.
            align: The required alignment in bytes; 0 stands for `nbytes`.
            by: The agent that race detection records as the reader. With None the caller records
                the reader by `reads` and `looks`.
            counts: True to count the traffic here. Otherwise the caller uses `count`.
        """

    def reads(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, by: Agent) -> None:
        """Record the reader of rows that `read` has read with `by=None`."""

    def looks(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        """Check a read for races with earlier writers, without recording its threads as readers.

        Another reader of the same rows is recorded in their place.
        """

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
        """Store rows of bytes, and drop rows that cannot be written.

        Rows that an asynchronous agent writes read as poison until they are settled or delivered.
        The arguments are those of `read`.
        """

    def count(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, *, is_store: bool
    ) -> None:
        """Count the traffic of rows as a GPU would access them, for accesses without `counts`."""

    def forget(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        """Mark the rows as not written."""

    def settle(self, transfer: Transfer) -> None:
        """Finish a copy that the threads that started it have waited for."""

    def deliver(self, transfer: Transfer) -> None:
        """Mark the bytes that a copy writes as written.

        The ordering decides separately which threads may use them without a race.
        """

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        """Move a copy that threads would wait for by themselves to this agent."""


Run = Callable[..., Sequence[Array] | None]
Test = Callable[..., npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Input:
    """An operand of an action, and the type that it is read as.

    Attributes:
        operand: The operand. An address (`[a + 4]`) is read as one u64 number.
        kind: The PTX type. With an empty one the operand is read as its register is declared: as
            bits, or as a predicate.
    """

    operand: Operand
    kind: str


@dataclass(frozen=True)
class Action:
    """The effect of one instruction on all threads that execute it together.

    Attributes:
        inputs: The operands that are read.
        outputs: The registers that are written.
        output_kinds: The PTX type of each output.
        run: Called as `run(active, *inputs)` with the active threads and one array for each input.
            An input array has one element for each thread. It returns one such array for each
            output.
        group: How many consecutive threads of a block must execute the instruction together: 1, a
            warp, or a warpgroup. Threads that arrive first wait for the others.
        ready: A condition with the arguments of `run`. A thread waits until the condition is true
            for it. A wait that no thread can end any more expires, and `run` is called anyway.
        stores_through: Positions among the inputs of the addresses that the action may store to,
            except addresses of shared memory.
        stores_anywhere: True if it may store to memory that no address among its inputs points to.
        row_bytes: The fewest bytes of memory that it accesses at a time.
        traffic: How its accesses are counted: not at all, warp by warp like loads and stores, or as
            one bulk access for each thread.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Operand, ...]
    output_kinds: tuple[str, ...]
    run: Run
    group: Literal[1, 32, 128] = 1
    ready: Test | None = None
    stores_through: tuple[int, ...] = ()
    stores_anywhere: bool = False
    row_bytes: int = 16
    traffic: Literal["none", "warps", "bulk"] = "none"


Maker = Callable[[Instruction], Action]

"""A function that makes the action of one instruction.

It raises UnknownForm, ValueError, KeyError or IndexError for a form that it does not support.
"""
