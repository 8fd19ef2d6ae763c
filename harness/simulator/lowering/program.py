"""A lowered kernel: basic blocks of steps on numbered registers.

A basic block is a list of steps and an end, which decides what runs next.
"""

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

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv"})


COPY = "asynchronous copy"
"""The `Access.kind` of cp.async and of bulk copies."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand whose value is known before the kernel runs."""

    value: Immediate


Source = int | Constant
"""A register by its number, or a constant."""


@dataclass(frozen=True, slots=True)
class Compute:
    """A step that computes registers of a thread from registers of the same thread.

    Attributes:
        operation: The computation.
        inputs: The operands of the computation.
        outputs: The numbers of the registers that receive the results.
        instruction: The PTX instruction, or None for a step that lowering has added.
    """

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """A step that reads registers of other threads, or has an effect besides writing registers.

    The operation's function is called with a `Team`, the lanes that take part (None for all), the
    inputs and the outputs.
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
        elements: Number of elements that are loaded or stored.
        address: Base address, as a register or constant.
        offset: Bytes to add to the base address.
        instruction: The PTX instruction.
        location: Source location of the instruction, or None.
        targets: Numbers of the registers that receive the loaded values.
        sources: Values to store, or operands of the atomic operation.
        operation: Name of the atomic operation; empty for a load or store.
        name: Name of the access in messages; empty for the name "load", "store" or "atomic".
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
        """Name of the access in messages, such as "load"."""
        if self.name:
            return self.name
        return "atomic" if self.operation else "store" if self.sources else "load"

    @property
    def how(self) -> int:
        """Kind of the access for race detection, as in race.h.

        The value is 0 for a plain access, 1 for a strong one, and 3 for an atomic one. 4 is added
        for a strong or atomic access whose scope is more than one block.
        """
        if not self.is_strong and not (self.targets and "cg" in self.instruction.modifiers):
            return 0
        return (3 if self.operation else 1) + 4 * (not self.is_of_block)

    @property
    def is_strong(self) -> bool:
        """True if the memory model counts the access as strong, such as a volatile load.

        A load that bypasses the first cache (`__ldcg`) is not strong. Race detection takes it for
        strong, because it sees what other blocks have stored, and kernels wait for flags by it.
        """
        return bool(self.operation) or not _STRONG.isdisjoint(self.instruction.modifiers)

    @property
    def is_of_block(self) -> bool:
        """True if the scope of a strong access is its block; a cluster is one block here."""
        return not {"cta", "cluster"}.isdisjoint(self.instruction.modifiers)


@dataclass(frozen=True, slots=True)
class Order:
    """A step that orders the memory accesses before it and after it.

    The kind "warp" orders accesses of the threads in a warp. The kind "fence" orders accesses as
    other blocks see them, and "block fence" as other threads of the block see them.
    """

    kind: Literal["warp", "fence", "block fence"]


@dataclass(frozen=True, slots=True)
class Branch:
    """End of a block: continue at `target` if the register is true, else at the next block.

    With `negated`, continue at `target` if the register is false.
    """

    register: int
    negated: bool
    target: str


@dataclass(frozen=True, slots=True)
class Jump:
    """End of a block: always continue at `target`."""

    target: str


@dataclass(frozen=True, slots=True)
class Exit:
    """End of a block: end the thread."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """End of a block: wait at a barrier for the other threads of the thread block.

    Attributes:
        number: Number of the barrier, if it is a constant.
        threads: Number of threads that the barrier waits for; None for all of the thread block, or
            if a register holds the number.
        location: Source location of the instruction, or None.
        number_register: Register that holds the barrier's number, or -1 if it is a constant.
        threads_register: Register that holds the number of threads, or -1.
        is_arrival: True if the thread arrives and continues at once (`bar.arrive`).
    """

    number: int
    threads: int | None
    location: Location | None
    number_register: int = -1
    threads_register: int = -1
    is_arrival: bool = False


@dataclass(frozen=True, slots=True)
class WarpSync:
    """End of a block: wait for the lanes of the warp that `mask` names and that have not ended.

    The lanes must arrive at the same instruction. With `is_anywhere` (`__syncwarp`), the lanes may
    also be at other instructions that have `is_anywhere`.
    """

    mask: Source
    location: Location | None
    name: str
    is_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """End of a block: continue at the target whose value, in `values`, equals the register's value.

    The return of a function that is not inlined is a `Dispatch`, too, with the function's name in
    `function`. Its `values` and `targets` are set after all calls of the function were lowered.
    """

    register: int
    values: tuple[int, ...]
    targets: tuple[str, ...]
    location: Location | None
    function: str = ""


@dataclass(frozen=True, slots=True)
class Yield:
    """End of a block: let other threads run first (`nanosleep`)."""


@dataclass(frozen=True, slots=True)
class Trap:
    """End of a block: stop the kernel with an error.

    Attributes:
        location: Source location of the instruction, or None.
        reason: The reason, in words.
        cause: "trap" for a trap of the kernel itself, "stack" for a recursion that needs more than
            a GPU's stack, and "depth" for one that only the simulator lacks the memory for.
    """

    location: Location | None
    reason: str = "trap"
    cause: Literal["trap", "stack", "depth"] = "trap"


@dataclass(frozen=True, slots=True)
class Perform:
    """End of a block: perform an action, such as `mma`.

    Attributes:
        action: The action, an instruction that needs more than its own thread's registers.
        inputs: The operands of the action.
        offsets: Bytes to add to each input that is an address; None for the other inputs.
        outputs: Numbers of the registers that receive the results; -1 for an unused result.
        instruction: The PTX instruction.
        location: Source location of the instruction, or None.
    """

    action: Action
    inputs: tuple[Source, ...]
    offsets: tuple[int | None, ...]
    outputs: tuple[int, ...]
    instruction: Instruction
    location: Location | None

    @property
    def is_test(self) -> bool:
        """True for `test_wait` and `try_wait`, which test whether an mbarrier's phase is done."""
        return not {"test_wait", "try_wait"}.isdisjoint(self.instruction.modifiers)


Step = Compute | Access | Collective | Order
End = Branch | Jump | Exit | Barrier | Trap | WarpSync | Dispatch | Yield | Perform


@dataclass(slots=True)
class Block:
    """A basic block: steps that run one after the other, and the end that follows them.

    Sets of registers are integers, in which bit n is the register with number n.

    Attributes:
        steps: The steps.
        end: The end, such as a branch or a barrier.
        instructions: Number of PTX instructions that a thread executes in this block.
        target: Number of the block that a branch or jump at the end leads to, or -1.
        targets: Numbers of the blocks that a `Dispatch` at the end leads to.
        reads: Set of the registers that the block reads before it writes them.
        writes: Set of the registers that the block writes.
        live: Set of the registers that some path from the block's start reads before writing.
        accesses_memory: True if a step accesses memory or orders accesses.
        executed: The PTX instructions that `instructions` counts.
        counted_branch: The conditional branch at the end of the block. None if the block ends in
            another way, or if lowering added the branch to implement a guard predicate.
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
    """A lowered kernel, ready to run.

    Attributes:
        name: The kernel's name in messages.
        blocks: The basic blocks.
        register_bits: Width of each register in bits, by number.
        specials: Numbers of the registers that are set before the start, such as `%tid.x`, by
            name.
        shared_bytes: Static shared memory of a block, in bytes.
        dynamic_shared_offset: Start of dynamic shared memory in the block's shared memory, in
            bytes.
        local_bytes: Local memory of a thread, in bytes.
        parameter_bytes: Size of the kernel's arguments in bytes.
        is_recursive: True if a function calls itself, so that the code depends on the stack's size.
    """

    name: str
    blocks: tuple[Block, ...]
    register_bits: tuple[int, ...]
    specials: Mapping[str, int]
    shared_bytes: int
    dynamic_shared_offset: int
    local_bytes: int
    parameter_bytes: int
    is_recursive: bool

    @cached_property
    def unset(self) -> int:
        """Set of the registers that some path reads without writing them before.

        Bit n is the register with number n. A correct kernel may have such registers, because its
        threads may never take that path. For example, a variable may be set and read under the same
        condition.
        """
        return self.blocks[0].live & ~mask(tuple(self.specials.values()))

    @property
    def lanes_together(self) -> int:
        """How many consecutive threads must run together: 32, or more for some instructions."""
        groups = (b.end.action.group for b in self.blocks if isinstance(b.end, Perform))
        return max(32, *groups, 32)


def mask(registers: tuple[Source, ...]) -> int:
    """Return the set of the registers among the operands: bit n is the register with number n."""
    bits = 0
    for register in registers:
        if isinstance(register, int):
            bits |= 1 << register
    return bits


def sources_of(step: Step) -> tuple[Source, ...]:
    """Return every operand that the step reads: numbers of registers, and constants."""
    if isinstance(step, Compute | Collective):
        return step.inputs
    return () if isinstance(step, Order) else (step.address, *step.sources)


def reads_strongly(program: Program) -> bool:
    """Return whether a kernel has an instruction by which a thread may wait for others.

    These are strong loads, atomics with a result, and tests of mbarriers. Race detection takes them
    for flags, and does not report a kernel that goes on whatever they return.
    """
    steps = (step for block in program.blocks for step in block.steps)
    ends = (block.end for block in program.blocks)
    return any(isinstance(step, Access) and step.targets and step.how for step in steps) or any(
        isinstance(end, Perform) and end.is_test for end in ends
    )


def targets_of(step: Step) -> tuple[int, ...]:
    """Return the number of every register that the step writes."""
    if isinstance(step, Order):
        return ()
    return step.targets if isinstance(step, Access) else step.outputs


def registers_of(end: End) -> int:
    """Return the set of the registers that an end of a block reads.

    Bit n of the result is the register with number n.
    """
    if isinstance(end, Branch | Dispatch):
        return 1 << end.register
    if isinstance(end, WarpSync):
        return mask((end.mask,))
    if isinstance(end, Perform):
        return mask(end.inputs)
    if isinstance(end, Barrier):
        return mask(tuple(r for r in (end.number_register, end.threads_register) if r >= 0))
    return 0
