"""Records of a PTX file: functions, variables and instructions.

`parse` reads every construct that nvcc emits, also those that nothing executes yet. The meaning of
an instruction is decided in `instructions/`. Names that inline assembly declares in its own scope
(`{ .reg .pred p; ... }`) are made unique, so a function's body is one flat list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.ptx.space import Space


class PtxSyntaxError(ValueError):
    """The text is not PTX that this parser supports."""

    def __init__(self, message: str, statement: str) -> None:
        super().__init__(f"{message}: {statement.strip()[:200]!r}")
        self.statement = statement


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the compiled source; `inlined_at` is where its function was called."""

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
        """The innermost location in a submission's file.

        For code of a header, this is the place that calls it.
        """
        is_inside = self.inlined_at and not self.file.endswith(".py")
        return self.inlined_at.written_at if self.inlined_at and is_inside else self


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer, or the bits of a float.

    Attributes:
        value: The integer or the bits.
        float_bits: Width of the float (32 or 64), or 0 for an integer.
    """

    value: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function or label, and an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """An address `[base + offset]`; the offset is in bytes."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector `{a, b}`: several registers read or written as one."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Arguments or results of a call `(a, b)`, or the coordinates of a tensor `[a, {b, c}]`."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated predicate `!p`."""

    register: Register


@dataclass(frozen=True, slots=True)
class DestinationPair:
    """Two destinations `p|q`."""

    first: Register
    second: Register


Operand = Register | Immediate | Symbol | Address | Vector | Group | Negated | DestinationPair


@dataclass(frozen=True, slots=True)
class Guard:
    """A predicate `@p` or `@!p` before an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction; `opcode` is the word before the first dot, `modifiers` are those after it."""

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
    """A target of branches."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter.

    Attributes:
        size: Bytes; 0 for `extern __shared__ x[]`.
        align: Alignment in bytes.
        element: Bytes of an element of the initialiser.
        values: Elements of the initialiser: integers (including bits of floats) or addresses of
            symbols.
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
    """A parameter of a kernel or function, and its place in the block of arguments in bytes."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`.entry`) or device function.

    Attributes:
        name: Mangled name.
        is_kernel: True for a kernel.
        parameters: The parameters.
        results: The results.
        registers: Type of each register that is declared by its own name.
        register_ranges: Count and type of each range of registers (`%r<81>`), by prefix.
        variables: Local variables.
        body: Instructions and labels; empty for a declaration.
        branch_targets: Labels of each list of branch targets, by name.
        directives: Performance directives as written (`.maxntid 128, 1, 1`).
    """

    name: str
    is_kernel: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: dict[str, str]
    register_ranges: dict[str, tuple[int, str]]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    branch_targets: dict[str, tuple[str, ...]]
    directives: tuple[str, ...] = ()

    @property
    def is_defined(self) -> bool:
        """True if the function has a body."""
        return bool(self.body)

    @property
    def parameter_bytes(self) -> int:
        """Size of the block of arguments in bytes."""
        return max((p.offset + p.size for p in self.parameters), default=0)

    def register_type(self, name: str) -> str:
        """Return the declared type of a register, without the dot.

        Raises:
            KeyError: The function has no such register.
        """
        if name in self.registers:
            return self.registers[name]
        # The prefix of a range may itself end in digits, so all divisions of the name are tried.
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
