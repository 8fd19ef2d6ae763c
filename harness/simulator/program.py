"""A kernel made ready to run: device functions inlined, names resolved, cut into basic blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from harness.simulator import printing
from harness.simulator.actions import action_of
from harness.simulator.actions.action import Action
from harness.simulator.calls import (
    STACK_BYTES,
    CallGraph,
    FrameLayout,
    arguments_layout,
    callee_of,
    frame_layout,
    function_addresses,
    register_names,
)
from harness.simulator.errors import ASSERTION_FAILED, UnsupportedInstruction
from harness.simulator.instructions import UnknownForm, carry, operation_of, warp
from harness.simulator.instructions.conversion import SPACES
from harness.simulator.instructions.operation import BITS, Array, Operation, copy
from harness.simulator.ptx import (
    TYPE_BYTES,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)
from harness.simulator.team import Lanes, Team


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand known before the kernel runs."""

    value: Immediate


Source = int | Constant
"""A register by its number, or a constant."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Fills registers from registers."""

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """Fills registers from what other threads hold too, or does something that is seen outside.

    The operation's function is called with a `Team` and the lanes that take part (None: all)
    before the inputs.
    """

    operation: Operation
    inputs: tuple[Source, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A load (`targets`), a store (`sources`) or an atomic operation (`operation`).

    `space` is a number of access.h; `type` is that of one element in memory, of which there are
    `elements`.
    """

    space: int
    type: str
    elements: int
    address: Source
    offset: int
    instruction: Instruction
    location: Location | None
    targets: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()
    operation: str = ""

    @property
    def kind(self) -> str:
        """What to call it in a message."""
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
class Meet:
    """Waits for the lanes of the warp that `mask` names and that have not ended.

    Threads meet at the same instruction; all `is_anywhere` (`__syncwarp`) are one meeting place.
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
End = Branch | Jump | Exit | Barrier | Trap | Meet | Dispatch | Yield | Perform


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
    stores: bool = False


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

    @property
    def lanes_together(self) -> int:
        """Threads in a row that some instruction needs together, at least a warp."""
        groups = (b.end.action.group for b in self.blocks if isinstance(b.end, Perform))
        return max(32, *groups, 32)


SPECIAL_BITS: Mapping[str, int] = {
    **{f"%{name}.{axis}": 32 for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{f"%{name}": 32 for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid")},
    **{f"%lanemask_{name}": 32 for name in ("eq", "le", "lt", "ge", "gt")},
    **{
        f"%{name}.{axis}": 32
        for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
        for axis in "xyz"
    },
    **{f"%{name}": 32 for name in ("cluster_ctarank", "cluster_nctarank", "envreg1", "envreg2")},
    "%dynamic_smem_size": 32,
    "%total_smem_size": 32,
    "%gridid": 64,
    "dynamic shared memory": 32,
}
"""Special registers and their widths."""

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_CLOCKS: Mapping[str, tuple[int, int]] = {
    "%clock": (32, 0),
    "%clock_hi": (32, 32),
    "%clock64": (64, 0),
    "%globaltimer": (64, 0),
    "%globaltimer_lo": (32, 0),
    "%globaltimer_hi": (32, 32),
}
"""Registers that count cycles (of one nanosecond): width, and how far the count is shifted."""
_NO_EFFECT = frozenset(
    {"prefetch", "prefetchu", "discard", "applypriority", "pmevent"}
    | {"setmaxnreg", "griddepcontrol", "brkpt"}
)
CLUSTER_BARRIER = 1 << 16
"""Number under which `barrier.cluster` is known; that of a block's barriers is below 16."""
_MEMORY_MODIFIERS = frozenset(
    {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "nc", "ca", "cg", "cs", "lu"}
    | {"cv", "wb", "wt", "cta", "gpu", "sys", "cluster", "L1", "L2", "v2", "v4", "u", "mmio"}
)
ATOMICS: Mapping[str, int] = {
    name: number
    for number, name in enumerate(
        ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    )
}
"""Numbers of the operations in access.c."""
_WORDS = ("u32", "s32", "u64", "s64", "b32", "b64")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_ATOMIC_KINDS: Mapping[str, tuple[str, ...]] = {
    "add": (*_WORDS, "f32", "f64", *_HALVES),
    "min": (*_WORDS, *_HALVES),
    "max": (*_WORDS, *_HALVES),
    "exch": _WORDS,
    "cas": ("b16", *_WORDS),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
}


def prepare(
    module: Module,
    kernel: str,
    readable_name: str,
    addresses: Mapping[str, int],
    native: Callable[..., Callable[..., None]],
) -> Program:
    """The kernel as a program; `addresses` tells where the module's variables are.

    Raises:
        UnsupportedInstruction: it needs something that is not implemented.
    """
    return _Lowering(module, readable_name, addresses, native).program(module.functions[kernel])


@dataclass
class _Scope:
    """One inlined function: its registers' prefix and what its names stand for."""

    function: Function
    prefix: str
    symbols: dict[str, tuple[str, int]]
    returns_to: str
    callers: tuple[str, ...] = ()
    frame: FrameLayout | None = None
    """Of an outlined function."""


@dataclass
class _Lowering:
    module: Module
    name: str
    addresses: Mapping[str, int]
    native_function: Callable[..., Callable[..., None]]
    numbers: dict[str, int] = field(default_factory=dict)
    bits: list[int] = field(default_factory=list)
    items: list[tuple[Step | End | Label | None, int]] = field(default_factory=list)
    """What to do and how many instructions it counts for."""
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0
    owners: dict[int, Instruction] = field(default_factory=dict)
    """For each of `items` that counts, the instruction that it stands for."""
    inlined: int = 0
    labels: int = 0
    sites: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Where each outlined function may return to: number and label."""
    graph: CallGraph = field(init=False)
    home: str = ""
    scope: _Scope = field(init=False)
    current: Instruction = field(init=False)

    def program(self, kernel: Function) -> Program:
        for variable in self.module.variables.values():
            if variable.space == "shared" and not variable.is_extern:
                self._place_shared(variable.name, variable)
        first = next((i for i in kernel.body if isinstance(i, Instruction) and i.location), None)
        self.home = first.location.outermost.file if first and first.location else ""
        symbols = {p.name: ("param", p.offset) for p in kernel.parameters}
        scope = _Scope(kernel, "", symbols, "")
        self.graph = CallGraph(self.module, kernel.name)
        self._refuse_clusters(kernel)
        if self.graph.outlined:
            self._outlined_functions(scope)
        self._function(scope)
        self.items.append((Exit(), 0))
        self._resolve_returns()
        blocks = _blocks(self.items, self.owners)
        _liveness(blocks)
        extern = (v.align for v in self.module.variables.values() if v.space == "shared")
        align = max(16, *extern, 16)
        dynamic = -(-self.shared_bytes // align) * align
        specials = {n: i for n, i in self.numbers.items() if n in SPECIAL_BITS}
        return Program(
            self.name,
            tuple(blocks),
            tuple(self.bits),
            specials,
            self.shared_bytes,
            dynamic,
            self.local_bytes,
            kernel.parameter_bytes,
        )

    # Names

    def _place_shared(self, key: str, variable: Variable) -> int:
        if key not in self.shared:
            self.shared[key] = -(-self.shared_bytes // variable.align) * variable.align
            self.shared_bytes = self.shared[key] + variable.size
        return self.shared[key]

    def _place_local(self, size: int, align: int) -> int:
        start = -(-self.local_bytes // align) * align
        self.local_bytes = start + size
        return start

    def _symbol(self, name: str) -> tuple[str, int] | None:
        """Space and address of a variable, or None."""
        if name in self.scope.symbols:
            return self.scope.symbols[name]
        if name in self.shared:
            return "shared", self.shared[name]
        variable = self.module.variables.get(name)
        if variable and variable.space == "shared":
            # Dynamic shared memory: behind the static part, wherever that ends.
            return "dynamic", 0
        if name in self.addresses:
            return "global", self.addresses[name]
        functions = function_addresses(self.module)
        return ("function", functions[name]) if name in functions else None

    def _number(self, name: str, bits: int) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.bits)
            self.bits.append(bits)
        return self.numbers[name]

    def _register(self, register: Register) -> int:
        name = register.name
        if name == "_":
            return self._number("_64", 64)
        if name.startswith("%") and name in SPECIAL_BITS:
            return self._number(name, SPECIAL_BITS[name])
        if name in _CLOCKS:
            return self._clock(name)
        return self._number(self.scope.prefix + name, self.register_bits(register))

    def register_bits(self, operand: Operand) -> int:
        """Width of a register, 0 for another operand."""
        if not isinstance(operand, Register):
            return 0
        if operand.name in SPECIAL_BITS:
            return SPECIAL_BITS[operand.name]
        if operand.name in _CLOCKS:
            return _CLOCKS[operand.name][0]
        try:
            return BITS[self.scope.function.register_type(operand.name)]
        except KeyError:
            raise self._unsupported() from None

    def native(self, name: str, *leading: int) -> Callable[..., None]:
        """The function of arithmetic.c."""
        return self.native_function(name, *leading)

    def _unsupported(self) -> UnsupportedInstruction:
        return UnsupportedInstruction(self.current.text, self.name, self.current.location)

    def _place(self, location: Location | None) -> Location | None:
        """The innermost place that is in the kernel's own file."""
        inner = location
        while inner:
            if inner.file == self.home:
                return Location(inner.file, inner.line, inner.column)
            inner = inner.inlined_at
        return location.outermost if location else None

    # Statements

    def _function(self, scope: _Scope) -> None:
        outer = getattr(self, "scope", None)
        self.scope = scope
        passed = self._passed(scope)
        for variable in scope.function.variables:
            if variable.space == "shared":
                key = f"{scope.function.name}:{variable.name}"
                scope.symbols[variable.name] = ("shared", self._place_shared(key, variable))
            elif variable.name in passed:
                space = "frame" if scope.frame else "local"
                above = scope.frame.size if scope.frame else 0
                scope.symbols[variable.name] = (space, above + passed[variable.name])
            elif scope.frame:
                scope.symbols[variable.name] = ("frame", scope.frame.variables[variable.name])
            else:
                start = self._place_local(variable.size, variable.align)
                scope.symbols[variable.name] = ("local", start)
        for item in scope.function.body:
            if isinstance(item, Label):
                self.items.append((Label(scope.prefix + item.name), 0))
            else:
                self.current = item
                start = len(self.items)
                self._instruction(item)
                self._own(start, item)
        if outer:
            self.scope = outer

    def _own(self, start: int, instruction: Instruction) -> None:
        """Notes which of the items since `start` counts for the instruction."""
        for index in range(start, len(self.items)):
            if self.items[index][1] and index not in self.owners:
                self.owners[index] = instruction
                return

    def _instruction(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode == "bra":
            self._bra(instruction)
            return
        if opcode in ("ret", "exit"):
            self._return(instruction)
            return
        self._guarded(instruction)

    def _guarded(self, instruction: Instruction) -> None:
        guard = instruction.guard
        skip = ""
        if guard:
            # Guarded instructions are rare: a branch around them needs no masks of its own.
            self.labels += 1
            skip = f"{self.scope.prefix}skip:{self.labels}"
            self.items.append((Branch(self._register(guard.register), not guard.negated, skip), 0))
        self._plain(instruction)
        if skip:
            self.items.append((Label(skip), 0))

    def _plain(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode in ("ld", "ldu"):
            self._load(instruction)
        elif opcode == "st":
            self._store(instruction)
        elif opcode in ("atom", "red"):
            self._atomic(instruction)
        elif opcode == "call":
            self._call(instruction)
        elif opcode in ("bar", "barrier"):
            self._barrier(instruction)
        elif opcode == "brx":
            self._indexed_branch(instruction)
        elif opcode in warp.MEETING or opcode in warp.ALONE:
            self._collective(instruction)
        elif opcode == "nanosleep":
            self.items.append((Yield(), 1))
        elif opcode in carry.OPCODES and (
            carry.reads_flag(instruction) or carry.writes_flag(instruction)
        ):
            self._with_flag(instruction)
        elif opcode == "trap":
            self.items.append((Trap(self._place(instruction.location)), 1))
        elif opcode in ("membar", "fence"):
            self.items.append((Order("fence"), 1))
        elif opcode in _NO_EFFECT:
            self.items.append((None, 1))
        elif self._action(instruction):
            pass
        else:
            self._compute(instruction)

    def _bra(self, instruction: Instruction) -> None:
        (target,) = instruction.operands
        if not isinstance(target, Symbol):
            raise self._unsupported()
        name = self.scope.prefix + target.name
        guard = instruction.guard
        if guard:
            self.items.append((Branch(self._register(guard.register), guard.negated, name), 1))
        else:
            self.items.append((Jump(name), 1))

    def _return(self, instruction: Instruction) -> None:
        is_ret = instruction.opcode == "ret"
        target = self.scope.returns_to if is_ret and self.scope.returns_to else "exit:"
        guard = instruction.guard
        if guard:
            self.items.append((Branch(self._register(guard.register), guard.negated, target), 1))
        elif target == "exit:":
            self.items.append((Exit(), 1))
        else:
            self.items.append((Jump(target), 1))

    def _compute(self, instruction: Instruction) -> None:
        try:
            operation = operation_of(instruction, self)
        except UnknownForm:
            raise self._unsupported() from None
        target, *sources = instruction.operands
        inputs = tuple(s for operand in sources for s in self._sources(operand))
        if len(inputs) != len(operation.inputs):
            raise self._unsupported()
        outputs = self._targets(target)
        if len(outputs) != len(operation.outputs):
            raise self._unsupported()
        for register, kind in zip(outputs, operation.outputs, strict=True):
            if self.bits[register] != BITS[kind] and register != self.numbers.get("_64"):
                raise self._unsupported()
        self.items.append((Compute(operation, inputs, outputs), 1))

    def _targets(self, operand: Operand) -> tuple[int, ...]:
        if isinstance(operand, Register):
            return (self._register(operand),)
        if isinstance(operand, Pair):
            return (self._register(operand.first), self._register(operand.second))
        if isinstance(operand, Vector):
            return tuple(r for part in operand.parts for r in self._targets(part))
        raise self._unsupported()

    def _sources(self, operand: Operand) -> tuple[Source, ...]:
        if isinstance(operand, Vector):
            return tuple(s for part in operand.parts for s in self._sources(part))
        return (self._source(operand),)

    def _source(self, operand: Operand) -> Source:
        if isinstance(operand, Register):
            if operand.name == "%is_explicit_cluster":
                return Constant(Immediate(0))
            if operand.name.startswith("%") and operand.name not in SPECIAL_BITS:
                self.register_bits(operand)
            return self._register(operand)
        if isinstance(operand, Immediate):
            return Constant(operand)
        if isinstance(operand, Negated):
            inverse = self._number(f"{self.scope.prefix}!{operand.register.name}", 1)
            inverted = Operation(("pred",), ("pred",), lambda a, out: copy(~a, out))
            self.items.append(
                (Compute(inverted, (self._register(operand.register),), (inverse,)), 0)
            )
            return inverse
        if isinstance(operand, Symbol) and (place := self._symbol(operand.name)):
            if place[0] == "dynamic":
                return self._number("dynamic shared memory", 32)
            if place[0] == "frame":
                return self._frame_address(place[1] + operand.offset)
            return Constant(Immediate(place[1] + operand.offset))
        raise self._unsupported()

    # Memory

    def _access_modifiers(self, instruction: Instruction) -> tuple[str, int, str, list[str]]:
        """Space ("generic" if none is named), elements, type, and what else there is."""
        space, elements, kind = "generic", 1, instruction.modifiers[-1]
        rest = []
        for modifier in instruction.modifiers[:-1]:
            plain = modifier.split("::")[0]
            if plain in ("global", "shared", "local", "param", "const"):
                space = plain  # a cluster is one block, so `shared::cluster` is its own memory
            elif plain in ("v2", "v4", "v8"):
                elements = int(plain[1])
            elif plain not in _MEMORY_MODIFIERS:
                rest.append(modifier)
        if kind not in TYPE_BYTES or TYPE_BYTES[kind] > 8 or kind == "pred":
            raise self._unsupported()
        if elements > 4 and instruction.opcode not in ("atom", "red"):
            raise self._unsupported()
        return space, elements, kind, rest

    def _address(self, operand: Operand, space: str) -> tuple[int, Source, int]:
        """Number of the space, address and bytes to add to it."""
        if not isinstance(operand, Address):
            raise self._unsupported()
        base = operand.base
        if isinstance(base, Immediate):
            return SPACES[space], Constant(base), operand.offset
        if isinstance(base, Register):
            if space == "param" and self.scope.returns_to:
                raise self._unsupported()
            return SPACES[space], self._register(base), operand.offset
        place = self._symbol(base.name)
        if place is None:
            raise self._unsupported()
        if place[0] == "dynamic":
            return SPACES["shared"], self._number("dynamic shared memory", 32), operand.offset
        if place[0] == "frame":
            return SPACES["local"], self._frame_pointer, place[1] + operand.offset
        if place[0] not in SPACES:
            raise self._unsupported()
        return SPACES[place[0]], Constant(Immediate(place[1])), operand.offset

    def _load(self, instruction: Instruction) -> None:
        space, elements, kind, rest = self._access_modifiers(instruction)
        target, address = instruction.operands[:2]
        targets = self._targets(target)
        if rest or len(targets) != elements or len(instruction.operands) != 2 + _hints(instruction):
            raise self._unsupported()
        if len({self.bits[register] for register in targets}) != 1:
            raise self._unsupported()
        where = self._address(address, space)
        place = self._place(instruction.location)
        self.items.append(
            (Access(where[0], kind, elements, *where[1:], instruction, place, targets), 1)
        )

    def _store(self, instruction: Instruction) -> None:
        space, elements, kind, rest = self._access_modifiers(instruction)
        address, value = instruction.operands[:2]
        sources = self._sources(value)
        if rest or len(sources) != elements or len(instruction.operands) != 2 + _hints(instruction):
            raise self._unsupported()
        where = self._address(address, space)
        place = self._place(instruction.location)
        self._release(instruction)
        self.items.append(
            (Access(where[0], kind, elements, *where[1:], instruction, place, (), sources), 1)
        )

    def _atomic(self, instruction: Instruction) -> None:
        space, elements, kind, rest = self._access_modifiers(instruction)
        operands = list(instruction.operands)
        if _hints(instruction):
            operands.pop()
        targets: tuple[int, ...] = ()
        if instruction.opcode == "atom":
            target = operands.pop(0)
            targets = () if target == Register("_") else self._targets(target)
        names = [r for r in rest if r in ATOMICS]
        if len(names) != 1 or set(rest) - {names[0], "noftz"}:
            raise self._unsupported()
        if kind not in _ATOMIC_KINDS.get(names[0], ()) or (elements > 1 and names[0] == "exch"):
            raise self._unsupported()
        number, address, offset = self._address(operands.pop(0), space)
        sources = [self._sources(operand) for operand in operands]
        if len(sources) != (2 if names == ["cas"] else 1):
            raise self._unsupported()
        if any(len(s) != elements for s in sources) or len(targets) not in (0, elements):
            raise self._unsupported()
        place = self._place(instruction.location)
        self._release(instruction)
        for element in range(elements):
            # A vector is one atomic operation for each of its elements.
            access = Access(
                number,
                kind,
                1,
                address,
                offset + element * TYPE_BYTES[kind],
                instruction,
                place,
                targets[element : element + 1],
                tuple(s[element] for s in sources),
                names[0],
            )
            self.items.append((access, int(element == 0)))

    def _release(self, instruction: Instruction) -> None:
        if not {"release", "acq_rel"}.isdisjoint(instruction.modifiers):
            self.items.append((Order("fence"), 0))

    def _action(self, instruction: Instruction) -> bool:
        """Lowers the instruction if it is one of actions/."""
        try:
            action = action_of(instruction)
        except UnknownForm:
            raise self._unsupported() from None
        if action is None:
            return False
        inputs: list[Source] = []
        offsets: list[int | None] = []
        for declared in action.inputs:
            operand = declared.operand
            if isinstance(operand, Address):
                _, source, offset = self._address(operand, "generic")
                inputs.append(source)
                offsets.append(offset)
            else:
                inputs.append(self._source(operand))
                offsets.append(None)
        outputs = []
        for operand, kind in zip(action.outputs, action.output_kinds, strict=True):
            if not isinstance(operand, Register):
                raise self._unsupported()
            is_sink = operand.name == "_"
            if not is_sink and self.register_bits(operand) != BITS[kind]:
                raise self._unsupported()
            outputs.append(-1 if is_sink else self._register(operand))
        place = self._place(instruction.location)
        perform = Perform(action, tuple(inputs), tuple(offsets), tuple(outputs), instruction, place)
        self.labels += 1
        self.items.append((Label(f"{self.scope.prefix}action:{self.labels}"), 0))
        self.items.append((perform, 1))
        return True

    # Flow

    def _barrier(self, instruction: Instruction) -> None:
        modifiers = tuple(m for m in instruction.modifiers if m not in ("cta", "aligned"))
        place = self._place(instruction.location)
        operands = list(instruction.operands)
        if modifiers == ("warp", "sync"):
            (named,) = operands
            self.items.append((Meet(self._source(named), place, "bar.warp.sync", True), 1))
            self.items.append((Order("warp"), 0))
            return
        if modifiers[:1] == ("cluster",):
            self._cluster_barrier(modifiers, place)
            return
        outcome = None
        if modifiers[:1] == ("red",):
            outcome = operands.pop(0), operands.pop()
        elif modifiers not in (("sync",), ("arrive",)):
            raise self._unsupported()
        sources = [self._source(operand) for operand in operands]
        if len(sources) not in (1, 2):
            raise self._unsupported()
        number, threads = (*sources, None)[:2]
        barrier = Barrier(
            number.value.value if isinstance(number, Constant) else 0,
            threads.value.value if isinstance(threads, Constant) else None,
            place,
            number if isinstance(number, int) else -1,
            threads if isinstance(threads, int) else -1,
            modifiers == ("arrive",),
        )
        if outcome is None:
            self.items.append((barrier, 1))
            return
        try:
            operation = warp.block_reduction(instruction)
        except (UnknownForm, ValueError):
            raise self._unsupported() from None
        predicate = self._source(outcome[1])
        self.items.append((barrier, 0))
        self.items.append((Collective(operation, (predicate,), self._targets(outcome[0])), 1))

    def _cluster_barrier(self, modifiers: tuple[str, ...], place: Location | None) -> None:
        """A cluster is one block: `wait` waits for the block's threads, `arrive` for nobody."""
        if modifiers[1:2] == ("arrive",):
            self.items.append((None, 1))
        elif modifiers[1:2] == ("wait",):
            self.items.append((Barrier(CLUSTER_BARRIER, None, place), 1))
        else:
            raise self._unsupported()

    def _refuse_clusters(self, kernel: Function) -> None:
        """Clusters of more than one block are not there."""
        for directive in kernel.directives:
            words = directive.replace(",", " ").split()
            if words[0] == ".reqnctapercluster" and any(int(n) > 1 for n in words[1:]):
                raise UnsupportedInstruction(directive, self.name, None)

    def _collective(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        is_meeting = opcode in warp.MEETING
        builder = (warp.MEETING if is_meeting else warp.ALONE)[opcode]
        try:
            operation = builder(instruction)
        except (UnknownForm, ValueError, KeyError):
            raise self._unsupported() from None
        target, *operands = instruction.operands
        inputs = tuple(self._source(operand) for operand in operands)
        outputs = self._targets(target)
        if len(inputs) != len(operation.inputs) or len(outputs) != len(operation.outputs):
            raise self._unsupported()
        if is_meeting:
            place = self._place(instruction.location)
            self.items.append((Meet(inputs[-1], place, instruction.name), 0))
            self.items.append((Order("warp"), 0))
        self.items.append((Collective(operation, inputs, outputs), 1))

    def _clock(self, name: str) -> int:
        """A register that is filled with the count of cycles here."""
        bits, shift = _CLOCKS[name]
        register = self._number(f"{self.scope.prefix}{name}", bits)

        def read(team: Team, _active: Lanes | None, out: Array) -> None:
            out.fill(team.clock() >> shift & (2**bits - 1))

        self.items.append((Collective(Operation((), (f"u{bits}",), read), (), (register,)), 0))
        return register

    def _with_flag(self, instruction: Instruction) -> None:
        try:
            operation = carry.operation_with_flag(instruction, self)
        except (UnknownForm, ValueError, KeyError):
            raise self._unsupported() from None
        flag = self._number(f"{self.scope.prefix}carry", 1)
        target, *operands = instruction.operands
        inputs = tuple(self._source(operand) for operand in operands)
        inputs += (flag,) * carry.reads_flag(instruction)
        outputs = self._targets(target) + (flag,) * carry.writes_flag(instruction)
        if len(inputs) != len(operation.inputs) or len(outputs) != len(operation.outputs):
            raise self._unsupported()
        self.items.append((Compute(operation, inputs, outputs), 1))

    def _indexed_branch(self, instruction: Instruction) -> None:
        index, table = instruction.operands
        if not isinstance(table, Symbol) or instruction.modifiers[:1] != ("idx",):
            raise self._unsupported()
        names = self.scope.function.branch_targets.get(table.name)
        register = self._source(index)
        if names is None or not isinstance(register, int):
            raise self._unsupported()
        targets = tuple(self.scope.prefix + name for name in names)
        place = self._place(instruction.location)
        self.items.append((Dispatch(register, tuple(range(len(names))), targets, place), 1))

    # Calls

    @property
    def _frame_pointer(self) -> int:
        return self._number("frame pointer", 64)

    def _passed(self, scope: _Scope) -> Mapping[str, int]:
        """Places, above the caller's frame, of what it hands to outlined functions."""
        variables = {v.name: v for v in scope.function.variables}
        places: dict[str, int] = {}
        for item in scope.function.body:
            if isinstance(item, Instruction) and item.opcode == "call":
                results, callee, arguments = callee_of(item)
                name = callee.name if isinstance(callee, Symbol | Register) else ""
                if isinstance(callee, Register) or name in self.graph.outlined:
                    places.update(
                        arguments_layout(
                            (variables[p.name] for p in arguments.parts if isinstance(p, Symbol)),
                            (variables[p.name] for p in results.parts if isinstance(p, Symbol)),
                        )
                    )
        return places

    def _set(self, register: int, value: int) -> None:
        kind = f"b{self.bits[register]}"
        operation = Operation((kind,), (kind,), copy)
        self.items.append((Compute(operation, (Constant(Immediate(value)),), (register,)), 0))

    def _copy(self, source: int, target: int) -> None:
        kind = f"b{self.bits[source]}"
        self.items.append((Compute(Operation((kind,), (kind,), copy), (source,), (target,)), 0))

    def _move_frame(self, target: int, nbytes: int) -> None:
        operation = Operation(("u64", "u64"), ("u64",), np.add)
        step = Constant(Immediate(nbytes))
        self.items.append((Compute(operation, (self._frame_pointer, step), (target,)), 0))

    def _frame_address(self, offset: int) -> int:
        register = self._number(f"{self.scope.prefix}frame address", 64)
        self._move_frame(register, offset)
        return register

    def _outlined_functions(self, kernel: _Scope) -> None:
        """Code of the functions that are called, before the kernel's.

        There it runs first, so that threads that call meet those that do not where they return.
        """
        self.local_bytes = STACK_BYTES
        self.scope = kernel
        self.items.append((Jump("kernel:"), 0))
        for name in sorted(self.graph.outlined):
            self._outlined_function(self.module.functions[name])
        del self.scope
        self.items.append((Label("kernel:"), 0))
        self._set(self._frame_pointer, 0)

    def _outlined_function(self, function: Function) -> None:
        prefix = f"{function.name}:"
        first = next(i for i in function.body if isinstance(i, Instruction))
        scope = _Scope(function, prefix, {}, f"{prefix}return:")
        outer, self.scope, self.current = self.scope, scope, first
        link = self._number(f"{prefix}link", 32)
        returns = self._number("return to", 32)
        saved: dict[str, int] = {}
        if function.name in self.graph.recursive:
            names = [
                n for n in register_names(function) if n not in SPECIAL_BITS and n not in _CLOCKS
            ]
            registers = {n: self._register(Register(n)) for n in names if n != "_"}
            registers["link"] = link
            saved = {n: max(self.bits[r] // 8, 1) for n, r in registers.items()}
        passed = self._passed(scope)
        own = [v for v in function.variables if v.space != "shared" and v.name not in passed]
        scope.frame = layout = frame_layout(function, saved, own)
        scope.symbols |= {p.name: ("frame", p.offset) for p in function.parameters}
        scope.symbols |= {p.name: ("frame", layout.results + p.offset) for p in function.results}
        self.items.append((Label(f"{prefix}entry:"), 0))
        if saved:
            self._check_stack(layout.size, first)
        for name, offset in layout.saved.items():
            self._spill(registers[name], saved[name], offset, first, is_store=True)
        self._copy(returns, link)
        self._function(scope)
        self.items.append((Label(f"{prefix}return:"), 0))
        self.scope, self.current = scope, first
        self._copy(link, returns)
        for name, offset in layout.saved.items():
            self._spill(registers[name], saved[name], offset, first, is_store=False)
        self.items.append((Dispatch(returns, (), (), None, function.name), 0))
        self.scope = outer

    def _spill(
        self, register: int, nbytes: int, offset: int, first: Instruction, *, is_store: bool
    ) -> None:
        """Keeps a register of the previous activation in the frame, or gets it back."""
        where = SPACES["local"], f"b{nbytes * 8}", 1, self._frame_pointer, offset
        place = self._place(first.location)
        if is_store:
            step = Access(*where, first, place, (), (register,))
        else:
            step = Access(*where, first, place, (register,))
        self.items.append((step, 0))

    def _check_stack(self, nbytes: int, first: Instruction) -> None:
        fits = self._number("stack fits", 1)
        limit = Constant(Immediate(STACK_BYTES - nbytes))
        operation = Operation(("u64", "u64"), ("pred",), np.less_equal)
        self.items.append((Compute(operation, (self._frame_pointer, limit), (fits,)), 0))
        self.labels += 1
        label = f"stack fits:{self.labels}"
        self.items.append((Branch(fits, False, label), 0))
        reason = f"the {STACK_BYTES} bytes of the call stack are used up"
        self.items.append((Trap(self._place(first.location), reason), 0))
        self.items.append((Label(label), 0))

    def _call_outlined(self, instruction: Instruction, callee: Function | Register) -> None:
        results, _, arguments = callee_of(instruction)
        shape = len(arguments.parts), len(results.parts)
        if isinstance(callee, Register):
            names = [
                n
                for n in sorted(self.graph.taken & self.graph.outlined)
                if shape == _shape(self.module.functions[n])
            ]
        else:
            names = [callee.name]
        self.labels += 1
        site, label = self.labels, f"returned:{self.labels}"
        for name in names:
            self.sites.setdefault(name, []).append((site, label))
        self._set(self._number("return to", 32), site)
        above = self.scope.frame.size if self.scope.frame else 0
        if above:
            self._move_frame(self._frame_pointer, above)
        if isinstance(callee, Register):
            addresses = function_addresses(self.module)
            targets = tuple(f"{n}:entry:" for n in names)
            values = tuple(addresses[n] for n in names)
            place = self._place(instruction.location)
            register = self._register(callee)
            self.items.append((Dispatch(register, values, targets, place), 1))
        else:
            self.items.append((Jump(f"{callee.name}:entry:"), 1))
        self.items.append((Label(label), 0))
        if above:
            self._move_frame(self._frame_pointer, 2**64 - above)

    def _resolve_returns(self) -> None:
        for index, (item, count) in enumerate(self.items):
            if isinstance(item, Dispatch) and item.function:
                sites = self.sites.get(item.function, [])
                values, labels = tuple(s[0] for s in sites), tuple(s[1] for s in sites)
                self.items[index] = replace(item, values=values, targets=labels), count

    def _call_library(
        self, instruction: Instruction, name: str, results: Group, arguments: Group
    ) -> None:
        """Printf and assert, whose arguments lie in local variables."""
        place = self._place(instruction.location)
        sizes = {v.name: v.size for v in self.scope.function.variables}
        inputs = []
        for number, operand in enumerate(arguments.parts):
            if not isinstance(operand, Symbol):
                raise self._unsupported()
            bits = sizes[operand.name] * 8
            register = self._number(f"argument {number} of {bits}", bits)
            where = self._address(Address(Symbol(operand.name)), "param")
            load = Access(where[0], f"b{bits}", 1, *where[1:], instruction, place, (register,))
            self.items.append((load, 0))
            inputs.append(register)
        kinds = tuple(f"u{self.bits[r]}" for r in inputs)
        if name == "__assertfail":
            failed = Operation(kinds, (), printing.assertfail)
            self.items.append((Collective(failed, tuple(inputs), ()), 1))
            self.items.append((Trap(place, ASSERTION_FAILED), 0))
            return
        taken = self._number("printed", 32)
        printed = Operation(kinds, ("u32",), printing.vprintf)
        self.items.append((Collective(printed, tuple(inputs), (taken,)), 1))
        for operand in results.parts:
            if isinstance(operand, Symbol):
                where = self._address(Address(Symbol(operand.name)), "param")
                store = Access(where[0], "b32", 1, *where[1:], instruction, place, (), (taken,))
                self.items.append((store, 0))

    def _call(self, instruction: Instruction) -> None:
        results, callee, arguments = callee_of(instruction)
        if isinstance(callee, Register):
            self._call_outlined(instruction, callee)
            return
        function = self.module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if function and function.name in self.graph.outlined:
            self._call_outlined(instruction, function)
            return
        if function and not function.is_defined and function.name in ("vprintf", "__assertfail"):
            self._call_library(instruction, function.name, results, arguments)
            return
        callers = (*self.scope.callers, self.scope.function.name)
        if function is None or not function.is_defined or function.name in callers:
            raise self._unsupported()
        self.items.append((None, 1))
        self.inlined += 1
        prefix = f"{self.inlined}:"
        symbols: dict[str, tuple[str, int]] = {}
        pairs = (
            *zip(function.parameters, arguments.parts, strict=True),
            *zip(function.results, results.parts, strict=True),
        )
        for parameter, operand in pairs:
            place = self._symbol(operand.name) if isinstance(operand, Symbol) else None
            if place is None or place[0] != "local":
                raise self._unsupported()
            symbols[parameter.name] = place
        end = f"{prefix}return:"
        self._function(_Scope(function, prefix, symbols, end, callers))
        self.items.append((Label(end), 0))
        self.current = instruction


def _blocks(
    items: list[tuple[Step | End | Label | None, int]], owners: Mapping[int, Instruction]
) -> list[Block]:
    """Basic blocks in the order of the text; the last is an exit to which `exit:` leads."""
    blocks: list[Block] = []
    starts: dict[str, int] = {}
    steps: list[Step] = []
    count = 0
    executed: list[Instruction] = []

    def close(end: End) -> None:
        nonlocal steps, count, executed
        blocks.append(Block(steps, end, count, executed=tuple(executed)))
        steps, count, executed = [], 0, []

    for index, (item, instructions) in enumerate(items):
        if isinstance(item, Label):
            if steps or count:
                close(Jump(item.name))
            starts[item.name] = len(blocks)
            continue
        count += instructions
        if instructions:
            executed.append(owners[index])
        if isinstance(item, Compute | Access | Collective | Order):
            steps.append(item)
        elif item is not None:
            close(item)
            if isinstance(item, Branch) and instructions:
                blocks[-1].counted_branch = owners[index]
    starts["exit:"] = len(blocks)
    close(Exit())
    for block in blocks:
        if isinstance(block.end, Branch | Jump):
            block.target = starts[block.end.target]
        elif isinstance(block.end, Dispatch):
            block.targets = tuple(starts[t] for t in block.end.targets)
    return blocks


def _shape(function: Function) -> tuple[int, int]:
    """How many parameters and results."""
    return len(function.parameters), len(function.results)


def _hints(instruction: Instruction) -> int:
    """Operands at the end that only hint to the cache."""
    return int("L2::cache_hint" in instruction.modifiers)


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
    if isinstance(end, Meet):
        return mask((end.mask,))
    if isinstance(end, Perform):
        return mask(end.inputs)
    if isinstance(end, Barrier):
        return mask(tuple(r for r in (end.number_register, end.threads_register) if r >= 0))
    return 0


def _liveness(blocks: list[Block]) -> None:
    """Fills `reads`, `writes` and `live`."""
    for block in blocks:
        for step in block.steps:
            block.accesses_memory |= isinstance(step, Access | Order)
            block.stores |= isinstance(step, Access) and step.kind == "store"
            block.reads |= mask(sources_of(step)) & ~block.writes
            block.writes |= mask(targets_of(step))
        block.reads |= registers_of(block.end) & ~block.writes
        if isinstance(block.end, Perform):
            block.writes |= mask(tuple(r for r in block.end.outputs if r >= 0))
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(blocks))):
            block = blocks[index]
            after = 0
            if not isinstance(block.end, Exit | Trap | Jump | Dispatch):
                after |= blocks[index + 1].live
            if block.target >= 0:
                after |= blocks[block.target].live
            for target in block.targets:
                after |= blocks[target].live
            live = block.reads | (after & ~block.writes)
            if live != block.live:
                block.live, changed = live, True
