"""A kernel made ready to run: basic blocks of steps on numbered registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.simulator.actions.action import Action
from harness.simulator.instructions.operation import Operation
from harness.simulator.ptx.ptx import Immediate, Instruction, Location
from harness.simulator.ptx.space import Space

ATOMICS: Mapping[str, int] = {
    name: number
    for number, name in enumerate(
        ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    )
}
"""Numbers of the operations in atomic.c."""

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})


COPY = "asynchronous copy"
"""What `Access.kind` is of cp.async and of bulk copies."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand known before the kernel runs."""

    value: Immediate


Source = int | Constant
"""A register by its number, or a constant."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Fills registers from registers; `instruction` is None where none of the program says so."""

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """Fills registers from what other threads hold too, or does something that is seen outside.

    The operation's function is called with a `Team` and the lanes that take part (None: all)
    before the inputs.
    """

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """A load (`targets`), a store (`sources`) or an atomic operation (`operation`).

    `space` is the one whose memory is meant; `type` is that of one element there, of which there
    are `elements`.
    """

    space: Space
    type: str
    elements: int
    address: Source
    offset: int
    instruction: Instruction
    location: Location | None
    targets: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()
    operation: str = ""
    name: str = ""
    """What it is, where it is none of these three."""

    @property
    def kind(self) -> str:
        """What to call it in a message."""
        if self.name:
            return self.name
        return "atomic" if self.operation else "store" if self.sources else "load"

    @property
    def how(self) -> int:
        """How it takes part in races: a number of race.h."""
        if self.operation:
            return 3
        return int(not _STRONG.isdisjoint(self.instruction.modifiers))


@dataclass(frozen=True, slots=True)
class Order:
    """Orders accesses: those of the threads of a warp, or (`fence`) what other blocks may see."""

    kind: Literal["warp", "fence"]


@dataclass(frozen=True, slots=True)
class Branch:
    """To `target` where the register is true (false if `negated`), else on to the next block."""

    register: int
    negated: bool
    target: str


@dataclass(frozen=True, slots=True)
class Jump:
    """To `target`, always."""

    target: str


@dataclass(frozen=True, slots=True)
class Exit:
    """The thread ends."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for the block's other threads, or for as many as `threads` says."""

    number: int
    threads: int | None
    location: Location | None
    number_register: int = -1
    """Register that holds the number, where it is not a constant."""
    threads_register: int = -1
    is_arrival: bool = False
    """Whether the thread goes on at once (`bar.arrive`)."""


@dataclass(frozen=True, slots=True)
class WarpSync:
    """Waits for the lanes of the warp that `mask` names and that have not ended.

    They must come to the same instruction; lanes at one that `is_anywhere` (`__syncwarp`) also wait
    for each other where they are at different ones.
    """

    mask: Source
    location: Location | None
    name: str
    is_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """To the target whose value the register holds.

    `function` is the outlined function that returns here, until its callers are known.
    """

    register: int
    values: tuple[int, ...]
    targets: tuple[str, ...]
    location: Location | None
    function: str = ""


@dataclass(frozen=True, slots=True)
class Yield:
    """Lets other threads go first (`nanosleep`)."""


@dataclass(frozen=True, slots=True)
class Trap:
    """Stops the kernel with an error."""

    location: Location | None
    reason: str = "trap"


@dataclass(frozen=True, slots=True)
class Perform:
    """An action, in a block of code of its own.

    `offsets` are bytes to add to the inputs that are addresses, None for the others; an output of
    which nobody wants the value is -1.
    """

    action: Action
    inputs: tuple[Source, ...]
    offsets: tuple[int | None, ...]
    outputs: tuple[int, ...]
    instruction: Instruction
    location: Location | None

    @property
    def is_test(self) -> bool:
        """Whether it only looks at an mbarrier."""
        return not {"test_wait", "try_wait"}.isdisjoint(self.instruction.modifiers)


Step = Compute | Access | Collective | Order
End = Branch | Jump | Exit | Barrier | Trap | WarpSync | Dispatch | Yield | Perform


@dataclass(slots=True)
class Block:
    """Steps that are executed one after the other, and what follows them.

    The registers in the masks are bits, register 0 the lowest.
    """

    steps: list[Step]
    end: End
    instructions: int
    """PTX instructions that a thread executes here."""
    target: int = -1
    """Block that the end leads to."""
    targets: tuple[int, ...] = ()
    """Blocks that a `Dispatch` leads to."""
    reads: int = 0
    """Registers read before they are written here."""
    writes: int = 0
    live: int = 0
    """Registers whose values matter at the start."""
    accesses_memory: bool = False
    executed: tuple[Instruction, ...] = ()
    """The instructions that `instructions` counts."""
    counted_branch: Instruction | None = None
    """The branch at the end, where it is one of the program and no mere guard."""


@dataclass(frozen=True)
class Program:
    """A kernel ready to run."""

    name: str
    blocks: tuple[Block, ...]
    register_bits: tuple[int, ...]
    specials: Mapping[str, int]
    """Registers that the machine fills before it starts (`%tid.x`)."""
    shared_bytes: int
    """Static shared memory per block; dynamic shared memory starts at `dynamic_shared_offset`."""
    dynamic_shared_offset: int
    local_bytes: int
    parameter_bytes: int

    @cached_property
    def unset(self) -> int:
        """Registers to whose reads there is a way without a write, as bits.

        No thread need go that way: of a variable that is set and read under one condition, a right
        kernel has such registers.
        """
        return self.blocks[0].live & ~mask(tuple(self.specials.values()))

    @property
    def lanes_together(self) -> int:
        """Threads in a row that some instruction needs together, at least a warp."""
        groups = (b.end.action.group for b in self.blocks if isinstance(b.end, Perform))
        return max(32, *groups, 32)


def mask(registers: tuple[Source, ...]) -> int:
    """The registers among the operands, as bits."""
    bits = 0
    for register in registers:
        if isinstance(register, int):
            bits |= 1 << register
    return bits


def sources_of(step: Step) -> tuple[Source, ...]:
    """Every operand that the step reads."""
    if isinstance(step, Compute | Collective):
        return step.inputs
    return () if isinstance(step, Order) else (step.address, *step.sources)


def targets_of(step: Step) -> tuple[int, ...]:
    """Every register that the step writes."""
    if isinstance(step, Order):
        return ()
    return step.targets if isinstance(step, Access) else step.outputs


def registers_of(end: End) -> int:
    """The registers that an end reads, as bits."""
    if isinstance(end, Branch | Dispatch):
        return 1 << end.register
    if isinstance(end, WarpSync):
        return mask((end.mask,))
    if isinstance(end, Perform):
        return mask(end.inputs)
    if isinstance(end, Barrier):
        return mask(tuple(r for r in (end.number_register, end.threads_register) if r >= 0))
    return 0
