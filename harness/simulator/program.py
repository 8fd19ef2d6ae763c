"""A kernel made ready to run: device functions inlined, names resolved, cut into basic blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.simulator.actions import action_of
from harness.simulator.actions.action import Action
from harness.simulator.errors import UnsupportedInstruction
from harness.simulator.instructions import UnknownForm, operation_of
from harness.simulator.instructions.conversion import SPACES
from harness.simulator.instructions.operation import BITS, Operation, copy
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


@dataclass(frozen=True, slots=True)
class Trap:
    """Stops the kernel with an error."""

    location: Location | None


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


Step = Compute | Access
End = Branch | Jump | Exit | Barrier | Trap | Perform


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
    reads: int = 0
    """Registers read before they are written here."""
    writes: int = 0
    live: int = 0
    """Registers whose values matter at the start."""
    accesses_memory: bool = False


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


SPECIAL_BITS: Mapping[str, int] = {
    **{f"%{name}.{axis}": 32 for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{f"%{name}": 32 for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid")},
    **{f"%lanemask_{name}": 32 for name in ("eq", "le", "lt", "ge", "gt")},
    "%dynamic_smem_size": 32,
    "%total_smem_size": 32,
    "%gridid": 64,
    "dynamic shared memory": 32,
}
"""Special registers and their widths."""

_NO_EFFECT = frozenset(
    {"membar", "fence", "prefetch", "prefetchu", "nanosleep", "discard", "setmaxnreg"}
)
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
    inlined: int = 0
    labels: int = 0
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
        self._function(_Scope(kernel, "", symbols, ""))
        self.items.append((Exit(), 0))
        blocks = _blocks(self.items)
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
        return None

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
        return self._number(self.scope.prefix + name, self.register_bits(register))

    def register_bits(self, operand: Operand) -> int:
        """Width of a register, 0 for another operand."""
        if not isinstance(operand, Register):
            return 0
        if operand.name in SPECIAL_BITS:
            return SPECIAL_BITS[operand.name]
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
        for variable in scope.function.variables:
            if variable.space == "shared":
                key = f"{scope.function.name}:{variable.name}"
                scope.symbols[variable.name] = ("shared", self._place_shared(key, variable))
            else:
                start = self._place_local(variable.size, variable.align)
                scope.symbols[variable.name] = ("local", start)
        for item in scope.function.body:
            if isinstance(item, Label):
                self.items.append((Label(scope.prefix + item.name), 0))
            else:
                self.current = item
                self._instruction(item)
        if outer:
            self.scope = outer

    def _instruction(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        guard = instruction.guard
        if opcode == "bra":
            self._bra(instruction)
            return
        if opcode in ("ret", "exit"):
            self._return(instruction)
            return
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
        elif opcode == "trap":
            self.items.append((Trap(self._place(instruction.location)), 1))
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
                space = plain
                if modifier.startswith("shared::cluster"):
                    raise self._unsupported()
            elif plain in ("v2", "v4"):
                elements = int(plain[1])
            elif plain not in _MEMORY_MODIFIERS:
                rest.append(modifier)
        if kind not in TYPE_BYTES or TYPE_BYTES[kind] > 8 or kind == "pred":
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
        return SPACES[place[0]], Constant(Immediate(place[1])), operand.offset

    def _load(self, instruction: Instruction) -> None:
        space, elements, kind, rest = self._access_modifiers(instruction)
        target, address = instruction.operands[:2]
        targets = self._targets(target)
        if rest or len(targets) != elements or len(instruction.operands) != 2:
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
        if rest or len(sources) != elements or len(instruction.operands) != 2:
            raise self._unsupported()
        where = self._address(address, space)
        place = self._place(instruction.location)
        self.items.append(
            (Access(where[0], kind, elements, *where[1:], instruction, place, (), sources), 1)
        )

    def _atomic(self, instruction: Instruction) -> None:
        space, elements, kind, rest = self._access_modifiers(instruction)
        operands = list(instruction.operands)
        targets = self._targets(operands.pop(0)) if instruction.opcode == "atom" else ()
        is_float = kind in ("f32", "f64")
        names = [r for r in rest if r in ATOMICS]
        if elements != 1 or len(rest) != 1 or len(names) != 1 or TYPE_BYTES[kind] < 4:
            raise self._unsupported()
        if (is_float and names != ["add"]) or kind.endswith("x2"):
            raise self._unsupported()
        where = self._address(operands.pop(0), space)
        sources = tuple(s for operand in operands for s in self._sources(operand))
        if len(sources) != (2 if names == ["cas"] else 1):
            raise self._unsupported()
        place = self._place(instruction.location)
        self.items.append(
            (
                Access(
                    where[0], kind, 1, *where[1:], instruction, place, targets, sources, names[0]
                ),
                1,
            )
        )

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
        modifiers = set(instruction.modifiers) - {"cta", "aligned"}
        if instruction.modifiers == ("warp", "sync"):
            # Threads of a warp run in step already, as far as they have not diverged; what they
            # wrote before is visible. Nothing to wait for.
            self.items.append((None, 1))
            return
        numbers = [o.value for o in instruction.operands if isinstance(o, Immediate)]
        if modifiers != {"sync"} or len(numbers) != len(instruction.operands) or len(numbers) > 2:
            raise self._unsupported()
        number, threads = (*numbers, None, None)[:2]
        self.items.append((Barrier(number or 0, threads, self._place(instruction.location)), 1))

    def _call(self, instruction: Instruction) -> None:
        operands = list(instruction.operands)
        results = operands.pop(0) if isinstance(operands[0], Group) else Group(())
        callee = operands.pop(0)
        arguments = operands.pop(0) if operands else Group(())
        function = self.module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if not isinstance(results, Group) or not isinstance(arguments, Group):
            raise self._unsupported()
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


def _blocks(items: list[tuple[Step | End | Label | None, int]]) -> list[Block]:
    """Basic blocks in the order of the text; the last is an exit to which `exit:` leads."""
    blocks: list[Block] = []
    starts: dict[str, int] = {}
    steps: list[Step] = []
    count = 0

    def close(end: End) -> None:
        nonlocal steps, count
        blocks.append(Block(steps, end, count))
        steps, count = [], 0

    for item, instructions in items:
        if isinstance(item, Label):
            if steps or count:
                close(Jump(item.name))
            starts[item.name] = len(blocks)
            continue
        count += instructions
        if isinstance(item, Compute | Access):
            steps.append(item)
        elif item is not None:
            close(item)
    starts["exit:"] = len(blocks)
    close(Exit())
    for block in blocks:
        if isinstance(block.end, Branch | Jump):
            block.target = starts[block.end.target]
    return blocks


def mask(registers: tuple[Source, ...]) -> int:
    """The registers among the operands, as bits."""
    bits = 0
    for register in registers:
        if isinstance(register, int):
            bits |= 1 << register
    return bits


def sources_of(step: Step) -> tuple[Source, ...]:
    """Every operand that the step reads."""
    if isinstance(step, Compute):
        return step.inputs
    return (step.address, *step.sources)


def targets_of(step: Step) -> tuple[int, ...]:
    """Every register that the step writes."""
    return step.outputs if isinstance(step, Compute) else step.targets


def _liveness(blocks: list[Block]) -> None:
    """Fills `reads`, `writes` and `live`."""
    for block in blocks:
        for step in block.steps:
            block.accesses_memory |= isinstance(step, Access)
            block.reads |= mask(sources_of(step)) & ~block.writes
            block.writes |= mask(targets_of(step))
        if isinstance(block.end, Branch):
            block.reads |= (1 << block.end.register) & ~block.writes
        elif isinstance(block.end, Perform):
            block.reads |= mask(block.end.inputs)
            block.writes |= mask(tuple(r for r in block.end.outputs if r >= 0))
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(blocks))):
            block = blocks[index]
            after = 0
            if not isinstance(block.end, Exit | Trap | Jump):
                after |= blocks[index + 1].live
            if block.target >= 0:
                after |= blocks[block.target].live
            live = block.reads | (after & ~block.writes)
            if live != block.live:
                block.live, changed = live, True
