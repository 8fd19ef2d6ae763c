"""Python records for the contents of a PTX file: functions, variables and instructions.

`parse` reads every construct that nvcc emits, even if the simulator cannot execute it.
`instructions/` defines what an instruction computes. Inline assembly may declare names in its own
scope (`{ .reg .pred p; ... }`). The parser makes these names unique in the function, so a
function's body is one flat list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.ptx.space import Space


class PtxSyntaxError(ValueError):
    """The text is not PTX, or is PTX that this parser does not support.

    Attributes:
        statement: The text that cannot be parsed.
    """

    def __init__(self, message: str, statement: str) -> None:
        super().__init__(f"{message}: {statement.strip()[:200]!r}")
        self.statement = statement


@dataclass(frozen=True, slots=True)
class Location:
    """The source location of an instruction.

    Attributes:
        file: Path of the source file.
        line: Number of the line.
        column: Number of the column.
        inlined_at: Location of the call, if the compiler inlined the function that contains the
            instruction; else None.
    """

    file: str
    line: int
    column: int
    inlined_at: Location | None = None

    @property
    def outermost(self) -> Location:
        """The location in the kernel itself: the outermost call, if the code was inlined."""
        return self.inlined_at.outermost if self.inlined_at else self

    @property
    def written_at(self) -> Location:
        """The innermost location in a Python file, which is the submission.

        For inlined code of a header, this is the submission's line that calls the code. If no
        location is in a Python file, the result is the location in the kernel itself.
        """
        is_inside = self.inlined_at and not self.file.endswith(".py")
        return self.inlined_at.written_at if self.inlined_at and is_inside else self


@dataclass(frozen=True, slots=True)
class Register:
    """An operand that is a virtual register, or a special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """An operand that is a constant: an integer or a floating-point number.

    Attributes:
        value: The integer, or the bits of the floating-point number.
        float_bits: Width of the float (32 or 64), or 0 for an integer.
    """

    value: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """An operand that names a variable, function or label, with an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """An operand in memory, `[base + offset]`; the offset is in bytes."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector operand `{a, b}`: several operands that an instruction reads or writes as one."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """An operand that is a list of operands.

    It holds the arguments or results of a call `(a, b)`, or an address with tensor coordinates
    `[a, {b, c}]`.
    """

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """An operand that is a negated predicate register, `!p`."""

    register: Register


@dataclass(frozen=True, slots=True)
class DestinationPair:
    """An operand `p|q`: two registers that one instruction writes."""

    first: Register
    second: Register


Operand = Register | Immediate | Symbol | Address | Vector | Group | Negated | DestinationPair


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate `@p` or `@!p` (negated) under which a thread executes an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """A PTX instruction.

    Attributes:
        opcode: The word before the first dot, such as "ld".
        modifiers: The words after the dots, such as ("global", "f32").
        operands: The operands, as written: destinations come first.
        guard: The predicate of the instruction, or None.
        location: Source location, or None.
        text: The instruction as PTX text, with its predicate.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    location: Location | None
    text: str

    @property
    def name(self) -> str:
        """Opcode with modifiers, as written in PTX: "ld.global.f32"."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A label in a function's body, to which branches can jump."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter that PTX declares.

    Attributes:
        name: Name of the variable.
        space: State space.
        type: PTX type of an element, without the dot.
        size: Size in bytes; 0 for `extern __shared__ x[]`.
        align: Alignment in bytes.
        element: Bytes of one element.
        values: Elements of the initialiser: integers, bits of floats, or symbols, which stand for
            their addresses. Empty if the variable has no initialiser.
        is_extern: True for a declaration with `.extern`.
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
    """A parameter or result of a kernel or function.

    Attributes:
        name: Name of the parameter.
        offset: Offset in bytes from the start of all parameters.
        size: Size in bytes.
        align: Alignment in bytes.
    """

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`.entry`) or device function (`.func`) in PTX.

    Attributes:
        name: Mangled name.
        is_kernel: True for a kernel.
        parameters: Parameters in order.
        results: Results in order; empty for a kernel.
        registers: Type of each register that is declared by its own name.
        register_ranges: Count and type of each range of registers (`%r<81>`), by prefix.
        variables: Variables that the function declares, such as static shared memory.
        body: Instructions and labels in order; empty for a declaration without a body.
        branch_targets: Labels of each list of branch targets, by the list's name.
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
        """Size of all parameters together in bytes, with padding between them."""
        return max((p.offset + p.size for p in self.parameters), default=0)

    def register_type(self, name: str) -> str:
        """Return the declared PTX type of a register without the dot, such as "b32".

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
    """The contents of one PTX file.

    Attributes:
        version: PTX version, such as "9.0".
        target: Target architecture with options, such as "sm_90a".
        functions: Kernels and device functions by mangled name.
        variables: Variables at module level by name.
        files: Path of each source file, by its number in `.loc` directives.
    """

    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    files: dict[int, str] = field(default_factory=dict)

    @property
    def kernels(self) -> dict[str, Function]:
        """The kernels (`.entry`) of the module by mangled name."""
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
