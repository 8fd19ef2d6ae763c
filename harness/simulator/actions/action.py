"""The interface of an action: an instruction that needs more than its own thread's registers.

An action ends a basic block. Its function receives all threads that execute it at once, as
`ActiveThreads`. The function reads and writes memory through `ActiveThreads`, with the same checks
as ordinary loads and stores.
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
    """The threads that execute one instruction together, and their access to memory.

    A row is a range of consecutive bytes of memory that one thread accesses. A thread accesses the
    shared memory of its own block. An error found in an access names the thread.
    """

    @property
    def lanes(self) -> Lanes:
        """The threads' numbers in their chunk (the blocks that run together), ascending."""

    @property
    def block_threads(self) -> int:
        """The number of threads in a block."""

    @property
    def copies(self) -> GroupedCopies:
        """The unfinished copies of `cp.async`, which no thread has waited for yet."""

    @property
    def bulk_reads(self) -> GroupedCopies:
        """The bulk copies to global memory, by group, until a thread has waited for the reads."""

    @property
    def bulk_writes(self) -> GroupedCopies:
        """The bulk copies to global memory, by group, until a thread has waited for the writes."""

    @property
    def deliveries(self) -> BarrierDeliveries:
        """The copies that an mbarrier counts, and that no thread has waited for yet."""

    @property
    def ordering(self) -> Ordering:
        """The interface to race detection, to which actions report arrivals, waits and groups."""

    @property
    def library(self) -> ctypes.CDLL:
        """The shared library with the simulator's C functions."""

    def native(self, name: str) -> Callable[..., None]:
        """Return a C function of arithmetic.c as a Python `function(*inputs, output)` on arrays."""

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
        """Read rows of `nbytes` bytes; bytes that cannot be read are poison (a fixed pattern).

        Args:
            space: The state space of the addresses.
            lanes: The thread that accesses each row.
            addresses: The address of the first byte of each row.
            nbytes: The length of a row in bytes.
            align: The required alignment in bytes; 0 means `nbytes`.
            by: The agent that race detection records as the reader. With None, race detection does
                not see the read; the caller can report it by calling `reads` and `looks`.
            counts: True to count the memory traffic. With False, the caller calls `count` instead.
        """

    def reads(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, by: Agent) -> None:
        """Record in race detection that `by` read rows, after a `read` with `by=None`."""

    def looks(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        """Check a read by the threads `lanes` for races with earlier writes, but do not record it.

        If several threads read the same rows, the caller calls `reads` for only one thread, which
        is recorded, and `looks` for the other threads.
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
        """Write rows of bytes, except rows that cannot be written.

        If `by` is asynchronous, reads of these bytes return poison (a fixed pattern) until `settle`
        or `deliver` finishes the copy. `rows` has the bytes of each row. The other arguments are
        those of `read`.
        """

    def count(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, *, is_store: bool
    ) -> None:
        """Count the memory traffic of rows that were read or written with `counts=False`.

        The caller passes one row for each access that a GPU would make.
        """

    def misuse(self, message: str, lanes: Lanes) -> None:
        """Report that threads used the instruction in a way that PTX leaves undefined."""

    def forget(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, rows: Bytes | None = None
    ) -> None:
        """Mark the bytes of the rows as not written, after storing `rows` unless it is None."""

    def settle(self, transfer: Transfer) -> None:
        """Finish a copy after the threads that started it have waited for it."""

    def deliver(self, transfer: Transfer) -> None:
        """Mark the target bytes of a copy as written, because the copy's mbarrier has counted it.

        Race detection decides separately which threads may use the bytes.
        """

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        """Attribute a copy to another agent for race detection.

        Before the call, the copy is attributed to the thread that started it. Afterwards, it is
        attributed to `agent`, such as the agent for all copies that one mbarrier counts.
        """


Run = Callable[..., Sequence[Array] | None]
Test = Callable[..., npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Input:
    """An operand of an action, and the PTX type in which it is read.

    Attributes:
        operand: The operand. An address (`[a + 4]`) is read as one u64 number.
        kind: The PTX type. If empty, the operand is read as its register is declared: as bits, or
            as a predicate.
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
            An input array has one element for each thread. The function returns an array of the
            same length for each output, or None if there are no outputs.
        group: How many consecutive threads of a block must execute the instruction together: 1, a
            warp, or a warpgroup. Threads that arrive first wait for the others.
        ready: None, or a test with the arguments of `run`. A thread waits until the test is true
            for it. If no thread can run any more, the wait expires and `run` is called anyway.
        stores_through: Indices of the inputs that are addresses to which the action may store.
            Addresses in shared memory are left out.
        stores_anywhere: True if the action may store to memory that no address among its inputs
            points to.
        row_bytes: The fewest bytes of memory that the action accesses at a time.
        traffic: How the action's memory traffic is counted. With "none", it is not counted. With
            "warps", it is counted as for loads and stores. With "bulk", the rows of each thread
            together count as requests of 128 bytes.
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
