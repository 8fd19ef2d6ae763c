"""A kernel ready to run: basic blocks of steps on numbered registers."""

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
"""Atomic operations and their numbers in atomic.c."""

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})


COPY = "asynchronous copy"
"""The `Access.kind` of cp.async and of bulk copies."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand that is known before the kernel runs."""

    value: Immediate


Source = int | Constant
"""A register by its number, or a constant."""


@dataclass(frozen=True, slots=True)
class Compute:
    """A step that computes registers from registers.

    Attributes:
        operation: The computation.
        inputs: Its operands.
        outputs: The registers that it fills.
        instruction: The PTX instruction, or None for a step that lowering has added.
    """

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """A step that uses values of other threads, or has an effect outside the thread's registers.

    The operation's function receives a `Team` and the lanes that take part (None for all), and then
    the inputs.
    """

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """A load (`targets`), a store (`sources`) or an atomic operation (`operation`).

    Attributes:
        space: State space of the memory.
        type: PTX type of one element in memory.
        elements: Number of elements.
        address: Base address.
        offset: Bytes to add to the base address.
        instruction: The PTX instruction.
        location: Source location, or None.
        targets: Registers to load into.
        sources: Values to store, or operands of the atomic operation.
        operation: Atomic operation, or empty.
        name: Name in messages, where it is not a load, a store or an atomic operation.
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

    @property
    def kind(self) -> str:
        """Name of the access in messages."""
        if self.name:
            return self.name
        return "atomic" if self.operation else "store" if self.sources else "load"

    @property
    def how(self) -> int:
        """Role of the access in races, a number of race.h: plain, strong or atomic."""
        if self.operation:
            return 3
        return int(not _STRONG.isdisjoint(self.instruction.modifiers))


@dataclass(frozen=True, slots=True)
class Order:
    """A step that orders accesses.

    It orders those of a warp's threads ("warp"), or what other blocks may see ("fence").
    """

    kind: Literal["warp", "fence"]


@dataclass(frozen=True, slots=True)
class Branch:
    """An end that continues at `target` if the register is true, else at the next block.

    With `negated`, it continues at `target` if the register is false.
    """

    register: int
    negated: bool
    target: str


@dataclass(frozen=True, slots=True)
class Jump:
    """An end that always continues at `target`."""

    target: str


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the thread."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """An end that waits for the block's other threads, or for as many as `threads` says.

    Attributes:
        number: Number of the barrier, if it is a constant.
        threads: Number of threads, or None for all of the block.
        location: Source location, or None.
        number_register: Register that holds the number, or -1 if it is a constant.
        threads_register: Register that holds the number of threads, or -1.
        is_arrival: True if the thread continues at once (`bar.arrive`).
    """

    number: int
    threads: int | None
    location: Location | None
    number_register: int = -1
    threads_register: int = -1
    is_arrival: bool = False


@dataclass(frozen=True, slots=True)
class WarpSync:
    """An end that waits for the lanes of the warp that `mask` names and that have not ended.

    They must arrive at the same instruction. Lanes at an instruction with `is_anywhere`
    (`__syncwarp`) also wait for lanes at other such instructions.
    """

    mask: Source
    location: Location | None
    name: str
    is_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An end that continues at the target whose value the register holds.

    `function` names the outlined function that returns here, until its callers are known.
    """

    register: int
    values: tuple[int, ...]
    targets: tuple[str, ...]
    location: Location | None
    function: str = ""


@dataclass(frozen=True, slots=True)
class Yield:
    """An end that lets other threads run first (`nanosleep`)."""


@dataclass(frozen=True, slots=True)
class Trap:
    """An end that stops the kernel with an error."""

    location: Location | None
    reason: str = "trap"


@dataclass(frozen=True, slots=True)
class Perform:
    """An end that performs an action, in a block of code of its own.

    Attributes:
        action: The action.
        inputs: Its operands.
        offsets: Bytes to add to each input that is an address; None for the others.
        outputs: The registers that it fills; -1 for an output that is not used.
        instruction: The PTX instruction.
        location: Source location, or None.
    """

    action: Action
    inputs: tuple[Source, ...]
    offsets: tuple[int | None, ...]
    outputs: tuple[int, ...]
    instruction: Instruction
    location: Location | None

    @property
    def is_test(self) -> bool:
        """True if the action only tests an mbarrier."""
        return not {"test_wait", "try_wait"}.isdisjoint(self.instruction.modifiers)


Step = Compute | Access | Collective | Order
End = Branch | Jump | Exit | Barrier | Trap | WarpSync | Dispatch | Yield | Perform


@dataclass(slots=True)
class Block:
    """Steps that run one after the other, and the end that follows them.

    Masks hold registers as bits, with register 0 lowest.

    Attributes:
        steps: The steps.
        end: What follows them.
        instructions: PTX instructions that a thread executes here.
        target: Block that the end leads to, or -1.
        targets: Blocks that a `Dispatch` leads to.
        reads: Registers that are read here before they are written, as bits.
        writes: Registers that are written here, as bits.
        live: Registers whose values at the start matter, as bits.
        accesses_memory: True if a step accesses memory or orders accesses.
        executed: The instructions that `instructions` counts.
        counted_branch: The branch at the end, if the program has it; None for the branch of a
            guard.
    """

    steps: list[Step]
    end: End
    instructions: int
    target: int = -1
    targets: tuple[int, ...] = ()
    reads: int = 0
    writes: int = 0
    live: int = 0
    accesses_memory: bool = False
    executed: tuple[Instruction, ...] = ()
    counted_branch: Instruction | None = None


@dataclass(frozen=True)
class Program:
    """A kernel ready to run.

    Attributes:
        name: The kernel's name in messages.
        blocks: The basic blocks.
        register_bits: Width of each register in bits.
        specials: Registers that the machine sets before the start (`%tid.x`), by name.
        shared_bytes: Static shared memory per block.
        dynamic_shared_offset: Start of dynamic shared memory in the block's shared memory, in
            bytes.
        local_bytes: Local memory per thread.
        parameter_bytes: Bytes of the arguments.
    """

    name: str
    blocks: tuple[Block, ...]
    register_bits: tuple[int, ...]
    specials: Mapping[str, int]
    shared_bytes: int
    dynamic_shared_offset: int
    local_bytes: int
    parameter_bytes: int

    @cached_property
    def unset(self) -> int:
        """Registers that some path reads without a write, as bits.

        No thread need take that path. A correct kernel has such registers, too, where a variable is
        set and read under the same condition.
        """
        return self.blocks[0].live & ~mask(tuple(self.specials.values()))

    @property
    def lanes_together(self) -> int:
        """Number of neighbouring threads that some instruction needs together, at least a warp."""
        groups = (b.end.action.group for b in self.blocks if isinstance(b.end, Perform))
        return max(32, *groups, 32)


def mask(registers: tuple[Source, ...]) -> int:
    """Return the registers among the operands, as bits."""
    bits = 0
    for register in registers:
        if isinstance(register, int):
            bits |= 1 << register
    return bits


def sources_of(step: Step) -> tuple[Source, ...]:
    """Return every operand that the step reads."""
    if isinstance(step, Compute | Collective):
        return step.inputs
    return () if isinstance(step, Order) else (step.address, *step.sources)


def targets_of(step: Step) -> tuple[int, ...]:
    """Return every register that the step writes."""
    if isinstance(step, Order):
        return ()
    return step.targets if isinstance(step, Access) else step.outputs


def registers_of(end: End) -> int:
    """Return the registers that an end reads, as bits."""
    if isinstance(end, Branch | Dispatch):
        return 1 << end.register
    if isinstance(end, WarpSync):
        return mask((end.mask,))
    if isinstance(end, Perform):
        return mask(end.inputs)
    if isinstance(end, Barrier):
        return mask(tuple(r for r in (end.number_register, end.threads_register) if r >= 0))
    return 0
