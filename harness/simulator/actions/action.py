"""What an instruction does that needs more than its own thread's registers.

Such an instruction stands in a basic block of its own. Its function sees all threads that execute
it at once, as `ActiveThreads`, and reads and writes memory through them, with the checks that
ordinary loads and stores have.
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

    `lanes` are their numbers in the chunk, ascending. Rows of memory belong to one thread each: it
    decides whose shared memory is meant, and a finding names it.
    """

    @property
    def lanes(self) -> Lanes:
        """The threads."""

    @property
    def block_threads(self) -> int:
        """Threads of one block."""

    @property
    def copies(self) -> GroupedCopies:
        """What `cp.async` has under way."""

    @property
    def bulk_reads(self) -> GroupedCopies:
        """What bulk copies in groups are reading."""

    @property
    def bulk_writes(self) -> GroupedCopies:
        """What bulk copies in groups are writing."""

    @property
    def deliveries(self) -> BarrierDeliveries:
        """What bulk copies to mbarriers have under way."""

    @property
    def ordering(self) -> Ordering:
        """Is told who waits for whom."""

    @property
    def library(self) -> ctypes.CDLL:
        """The simulator's C functions."""

    def native(self, name: str) -> Callable[..., None]:
        """A function of arithmetic.c as `function(*inputs, output)` on arrays."""

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
        """Rows of `nbytes` bytes; poison where they cannot be read. `align` is as large if 0.

        With `by` None it is told separately who reads, without `counts` also what that costs.
        """

    def reads(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, by: Agent) -> None:
        """Tells who reads what has been read without telling."""

    def looks(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        """The same of threads for which another reader stands later on."""

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
        """Stores rows of bytes; what cannot be written is dropped.

        What an asynchronous agent writes reads as poison until it is settled or delivered.
        """

    def count(
        self, space: Space, lanes: Lanes, addresses: Array, nbytes: int, *, is_store: bool
    ) -> None:
        """Tells in which rows a GPU would access what is accessed without counting."""

    def forget(self, space: Space, lanes: Lanes, addresses: Array, nbytes: int) -> None:
        """Makes the rows count as not written."""

    def settle(self, transfer: Transfer) -> None:
        """The threads that started a copy have waited for it."""

    def deliver(self, transfer: Transfer) -> None:
        """What a copy writes is there; who may use it, the ordering tells."""

    def entrust(self, transfer: Transfer, agent: Agent) -> None:
        """What threads would have waited for themselves is now this agent's."""


Run = Callable[..., Sequence[Array] | None]
Test = Callable[..., npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Input:
    """An operand and the type it is read as; an address (`[a + 4]`) is one u64 number.

    With an empty `kind` it is read as its register is declared: as bits, or as a predicate.
    """

    operand: Operand
    kind: str


@dataclass(frozen=True)
class Action:
    """What to do when threads come to the instruction.

    `run(active, *inputs)` gets the threads and one array for each input, with an element for each
    of them, and returns one such array for each output. `group` threads (1, a warp, a warpgroup)
    that follow each other in their block must come together: who comes first waits. With `ready`,
    which takes the same arguments, a thread also waits until it is true for that thread; a wait
    that nothing can end any more expires, and `run` is called all the same.

    `stores_through` are positions among the inputs of addresses, other than of shared memory, that
    it may store to, and `row_bytes` is how many bytes of memory it takes at a time, at least.
    `traffic` tells whether its accesses are counted: warp by warp as those of loads and stores, or
    all that a thread asks for at once.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Operand, ...]
    output_kinds: tuple[str, ...]
    run: Run
    group: Literal[1, 32, 128] = 1
    ready: Test | None = None
    stores_through: tuple[int, ...] = ()
    stores_anywhere: bool = False
    """Whether it may store where no address among its inputs leads."""
    row_bytes: int = 16
    traffic: Literal["none", "warps", "bulk"] = "none"


Maker = Callable[[Instruction], Action]

"""Makes the action of one instruction.

Raises UnknownForm, ValueError, KeyError or IndexError for a form that it does not know.
"""
