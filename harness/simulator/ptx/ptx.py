"""What a PTX file says: functions, variables and instructions, as frozen records.

`parse` reads every construct that nvcc emits, also those that nothing executes yet; what an
instruction does is decided in `instructions/`. Names that inline assembly declares in a scope of
its own (`{ .reg .pred p; ... }`) come out unique, so a function body is one flat list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.ptx.space import Space


class PtxSyntaxError(ValueError):
    """The text is not PTX as this parser knows it."""

    def __init__(self, message: str, statement: str) -> None:
        super().__init__(f"{message}: {statement.strip()[:200]!r}")
        self.statement = statement


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the source that was compiled; `inlined_at` is where its function was called."""

    file: str
    line: int
    column: int
    inlined_at: Location | None = None

    @property
    def outermost(self) -> Location:
        """The place in the kernel itself, through all inlining."""
        return self.inlined_at.outermost if self.inlined_at else self

    @property
    def written_at(self) -> Location:
        """The line of a submission that it is of; in a header's function, who called it."""
        is_inside = self.inlined_at and not self.file.endswith(".py")
        return self.inlined_at.written_at if self.inlined_at and is_inside else self


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer, or the bits of a float with its width."""

    value: int
    float_bits: int = 0
    """32 or 64 when `value` holds the bits of a float, 0 for an integer."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function or label, and bytes past it."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; offset in bytes."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`: several registers read or written as one."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`, the arguments or results of a call; `[a, {b, c}]`, a tensor's coordinates."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    register: Register


@dataclass(frozen=True, slots=True)
class DestinationPair:
    """`p|q`: two destinations."""

    first: Register
    second: Register


Operand = Register | Immediate | Symbol | Address | Vector | Group | Negated | DestinationPair


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p` before an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `opcode` is the word before the first dot, `modifiers` those after."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    location: Location | None
    text: str

    @property
    def name(self) -> str:
        """Opcode with modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter.

    `size` is in bytes and 0 for `extern __shared__ x[]`. `values` are the initialiser's elements,
    each `element` bytes wide: integers (bits of floats included) or addresses of other symbols.
    """

    name: str
    space: Space
    type: str
    size: int
    align: int
    element: int
    values: tuple[int | Symbol, ...] = ()
    is_extern: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel's or function's parameter and its place in the block of arguments, in bytes."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`.entry`) or device function; `body` is empty for a mere declaration."""

    name: str
    is_kernel: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: dict[str, str]
    """Type of every register that has one name of its own."""
    register_ranges: dict[str, tuple[int, str]]
    """`%r<81>`: prefix to (count, type)."""
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    branch_targets: dict[str, tuple[str, ...]]
    directives: tuple[str, ...] = ()
    """Performance directives, as written (`.maxntid 128, 1, 1`)."""

    @property
    def is_defined(self) -> bool:
        """Whether there is a body."""
        return bool(self.body)

    @property
    def parameter_bytes(self) -> int:
        """Size of the block of arguments."""
        return max((p.offset + p.size for p in self.parameters), default=0)

    def register_type(self, name: str) -> str:
        """The declared type of a register, without the dot.

        Raises:
            KeyError: no such register.
        """
        if name in self.registers:
            return self.registers[name]
        prefix = name.rstrip("0123456789")
        number = name[len(prefix) :]
        while prefix:
            if (
                prefix in self.register_ranges
                and number
                and int(number) < self.register_ranges[prefix][0]
            ):
                return self.register_ranges[prefix][1]
            if not number:
                break
            prefix, number = prefix + number[0], number[1:]
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX file."""

    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    files: dict[int, str] = field(default_factory=dict)

    @property
    def kernels(self) -> dict[str, Function]:
        """The functions that can be launched."""
        return {name: f for name, f in self.functions.items() if f.is_kernel}


TYPE_BYTES = {
    "pred": 1,
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64, 128)},
    "f16": 2,
    "bf16": 2,
    "f16x2": 4,
    "bf16x2": 4,
    "tf32": 4,
    "f32": 4,
    "f64": 8,
    "f32x2": 8,
    "e4m3": 1,
    "e5m2": 1,
    "e4m3x2": 2,
    "e5m2x2": 2,
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}
"""Bytes of a value of each PTX type."""
