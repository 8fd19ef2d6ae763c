"""The PTX parser, and the lists of PTX instructions by source line."""

import pytest

from harness.simulator.ptx.by_line import PtxOfLine, ptx_by_line
from harness.simulator.ptx.parser import parse
from harness.simulator.ptx.ptx import (
    Address,
    DestinationPair,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Negated,
    Operand,
    Parameter,
    PtxSyntaxError,
    Register,
    Symbol,
    Vector,
)

pytestmark = pytest.mark.simulator_only

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"


def kernel(body: str, parameters: str = "") -> tuple[Instruction | Label, ...]:
    """Parse a kernel with the given body, and return its statements."""
    text = f"{HEADER}.visible .entry test({parameters})\n{{\n.reg .b32 %r<9>;\n{body}\n}}\n"
    return parse(text).functions["test"].body


def instruction(text: str) -> Instruction:
    """Parse the text of one PTX instruction, and return it."""
    (parsed,) = kernel(text + ";")
    assert isinstance(parsed, Instruction)
    return parsed


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("mov.b32 %r1, 5", (Register("%r1"), Immediate(5))),
        ("mov.b32 %r1, -0x10", (Register("%r1"), Immediate(-16))),
        ("mov.b32 %r1, 0b101", (Register("%r1"), Immediate(5))),
        ("mov.b32 %r1, 0123", (Register("%r1"), Immediate(0o123))),
        ("mov.b32 %r1, -010U", (Register("%r1"), Immediate(-8))),
        ("ld.global.b32 %r1, [%rd1+010]", (Register("%r1"), Address(Register("%rd1"), 8))),
        ("mov.f32 %r1, 0f3F800000", (Register("%r1"), Immediate(0x3F800000, 32))),
        ("mov.f64 %r1, 0d3FF0000000000000", (Register("%r1"), Immediate(0x3FF << 52, 64))),
        ("mov.u32 %r1, %ctaid.x", (Register("%r1"), Register("%ctaid.x"))),
        ("mov.u64 %r1, x+8", (Register("%r1"), Symbol("x", 8))),
        ("ld.global.f32 %r1, [%r2+-4]", (Register("%r1"), Address(Register("%r2"), -4))),
        ("ld.global.f32 %r1, [x]", (Register("%r1"), Address(Symbol("x")))),
        ("ld.global.f32 %r1, [x+12]", (Register("%r1"), Address(Symbol("x"), 12))),
        ("ld.global.f32 %r1, [64]", (Register("%r1"), Address(Immediate(64)))),
        (
            "mov.b64 %r1, {%r2, %r3}",
            (Register("%r1"), Vector((Register("%r2"), Register("%r3")))),
        ),
        (
            "setp.eq.and.s32 %p1|%p2, %r1, 0, !%p3",
            (
                DestinationPair(Register("%p1"), Register("%p2")),
                Register("%r1"),
                Immediate(0),
                Negated(Register("%p3")),
            ),
        ),
        (
            "call (r), f, (a, b)",
            (Group((Symbol("r"),)), Symbol("f"), Group((Symbol("a"), Symbol("b")))),
        ),
    ],
)
def test_operands(text: str, operands: tuple[Operand, ...]) -> None:
    """Every kind of PTX operand is parsed into its own class."""
    assert instruction(text).operands == operands


def test_opcode_modifiers_and_guard() -> None:
    """An instruction is split at its dots into opcode and modifiers.

    The predicate that guards it may be negated.
    """
    parsed = instruction("@!%p1 ld.global.nc.v2.f32 {%r1, %r2}, [%r3]")
    assert (parsed.opcode, parsed.modifiers) == ("ld", ("global", "nc", "v2", "f32"))
    assert parsed.guard == Guard(Register("%p1"), negated=True)
    assert parsed.name == "ld.global.nc.v2.f32"


def test_statement_after_a_label_and_a_location() -> None:
    """A `.loc` between a label and an instruction does not hide the instruction."""
    label, add = kernel("L1:\n\t.loc 1 5 3\n\tadd.s32 %r1, %r1, 1;")
    assert label == Label("L1")
    assert isinstance(add, Instruction)
    assert add.opcode == "add"


def test_instruction_on_the_line_of_a_location() -> None:
    """An instruction behind a `.loc` in the same line is executed, as ptxas does."""
    add, sub = kernel(
        ".loc 1 5 3 add.s32 %r1, %r1, 1;\n"
        ".loc 1 6 3, function_name $L__info_string0+4, inlined_at 1 5 3 sub.s32 %r1, %r1, 1;"
    )
    assert isinstance(add, Instruction)
    assert isinstance(sub, Instruction)
    assert (add.opcode, add.location and add.location.line) == ("add", 5)
    assert (sub.opcode, sub.location and sub.location.line) == ("sub", 6)


def test_sizes_may_be_octal_or_hexadecimal() -> None:
    """The sizes of arrays and the counts of registers are integer constants like all others."""
    parsed = parse(f"{HEADER}.const .align 010 .b8 table[0x10][010];\n.global .b32 one[02];")
    sizes = [(variable.size, variable.align) for variable in parsed.variables.values()]
    assert sizes == [(128, 8), (8, 4)]
    for wrong in ("09", "1_0", "0o7"):
        with pytest.raises(PtxSyntaxError, match=f"not an integer: '{wrong}'"):
            parse(f"{HEADER}.global .b32 one[{wrong}];")


def test_locations_tell_where_a_function_was_inlined() -> None:
    """The location of inlined code leads, by `outermost`, to the kernel's own source line.

    A `.loc` with line 0 is ignored.
    """
    text = (
        f"{HEADER}.visible .entry test()\n{{\n.loc 1 7 3\n"
        ".loc 2 90 1, function_name $L__info_string0, inlined_at 1 7 3\nadd.s32 %r1, %r1, 1;\n"
        '.loc 1 0 3\nret;\n}\n.file 1 "kernel.cu"\n.file 2 "header.h"\n'
    )
    first, second = parse(text).functions["test"].body
    assert isinstance(first, Instruction)
    assert isinstance(second, Instruction)
    assert first.location
    assert (first.location.file, first.location.line) == ("header.h", 90)
    assert (first.location.outermost.file, first.location.outermost.line) == ("kernel.cu", 7)
    assert second.location == first.location


def test_inline_assembly_has_names_of_its_own() -> None:
    """Registers and labels in a nested scope, as inline assembly has, hide outer ones.

    Outside the scope, the inner names are not visible.
    """
    body = "{ .reg .pred p; .reg .b32 %r1; setp.eq.s32 p, %r1, %r2; @p bra L; L: } mov.b32 %r1, 0;"
    setp, branch, label, mov = kernel(body)
    assert isinstance(setp, Instruction)
    assert isinstance(branch, Instruction)
    assert isinstance(mov, Instruction)
    inner = setp.operands[1]
    assert isinstance(inner, Register)
    assert inner != Register("%r1")
    assert branch.guard
    assert branch.guard.register == setp.operands[0]
    assert mov.operands[0] == Register("%r1")
    assert label == Label("L$1")
    assert branch.operands == (Symbol("L$1"),)


def test_parameters_are_laid_out_as_c_does() -> None:
    """Each kernel parameter starts at a multiple of its alignment, as in a C structure."""
    text = (
        f"{HEADER}.visible .entry test(.param .u8 a, .param .u64 .ptr .global .align 4 b, "
        ".param .align 16 .b8 c[20], .param .u16 d) { ret; }"
    )
    function = parse(text).functions["test"]
    assert function.parameters == (
        Parameter("a", 0, 1, 1),
        Parameter("b", 8, 8, 8),
        Parameter("c", 16, 20, 16),
        Parameter("d", 36, 2, 2),
    )
    assert function.parameter_bytes == 38


def test_variables_and_their_initialisers() -> None:
    """Module variables are parsed with size, alignment and initial values.

    A value may be the address of another variable.
    """
    text = HEADER + (
        ".const .align 4 .b8 a[8] = {1, 2, 255};\n"
        ".visible .global .align 8 .u64 b[2] = {generic(a)+4, a};\n"
        ".global .f32 c = 0f3F800000;\n.extern .shared .align 16 .b8 d[];\n"
        ".global .align 4 .u32 e[2][3] = {{1, 2, 3}, {4, 5, 6}};\n"
    )
    v = parse(text).variables
    assert (v["a"].space, v["a"].size, v["a"].values) == ("const", 8, (1, 2, 255))
    assert v["b"].values == (Symbol("a", 4), Symbol("a"))
    assert (v["c"].size, v["c"].align, v["c"].values) == (4, 4, (0x3F800000,))
    assert (v["d"].space, v["d"].size, v["d"].is_extern) == ("shared", 0, True)
    assert (v["e"].size, v["e"].values) == (24, (1, 2, 3, 4, 5, 6))


def test_register_types() -> None:
    """`register_type` returns the type of a register that is declared by name or in a range.

    An example of a range is `%rd<3>`. The method raises KeyError for other names.
    """
    text = f"{HEADER}.visible .entry test() {{ .reg .b64 %rd<3>; .reg .pred %SP, q; ret; }}"
    function = parse(text).functions["test"]
    assert function.register_type("%rd2") == "b64"
    assert function.register_type("q") == "pred"
    with pytest.raises(KeyError):
        function.register_type("%rd3")


def test_comments_and_strings() -> None:
    """The parser removes comments of both kinds, but not inside a string."""
    (move,) = kernel('mov.b32 %r1, /* ; */ 5; // } \n .pragma "nounroll // ;";')
    assert isinstance(move, Instruction)
    assert move.operands == (Register("%r1"), Immediate(5))


def test_function_declarations() -> None:
    """An extern function is parsed with its results and parameters, and has no body."""
    text = f"{HEADER}.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"
    function = parse(text).functions["vprintf"]
    assert not function.is_defined
    assert [p.size for p in function.parameters] == [8, 8]
    assert [p.size for p in function.results] == [4]


def test_unreadable_text_is_an_error() -> None:
    """An unknown directive or operand raises PtxSyntaxError and is never skipped."""
    with pytest.raises(PtxSyntaxError, match="directive"):
        kernel(".surprise 5;")
    with pytest.raises(PtxSyntaxError, match="directive"):
        kernel('.file 1 "x.cu" add.s32 %r1, %r1, 1;')
    with pytest.raises(PtxSyntaxError, match="operand"):
        kernel("mov.b32 %r1, ?;")


def test_ptx_of_a_line_is_bounded() -> None:
    """`ptx_by_line` returns at most 200 PTX instructions of 400 characters for a source line.

    All lines together have at most 128 KiB.
    """

    def at(line: int, text: str) -> Instruction:
        location = Location("inline.h", 1, 1, Location("build/mine.py", line, 1))
        return Instruction("add", (), (), None, location, text)

    first = [at(1, "add")] * 2 + [at(1, f"add {number}") for number in range(300)]
    # A second instance of a template adds nothing to a line that the first one has.
    kernels = [("fill", first), ("fill", [at(1, "other"), at(2, "x" * 1000)])]
    one, two = ptx_by_line("mine.py", kernels)
    assert (one.line, one.kernel, len(one.instructions), one.left_out) == (1, "fill", 200, 101)
    assert one.instructions[:2] == ("add", "add 0"), "the same one twice is one"
    assert two == PtxOfLine(2, "fill", ("x" * 400 + " ...",))
    many = [("fill", [at(line, "y" * 300) for line in range(1000)])]
    every = ptx_by_line("mine.py", many)
    assert len(every) == 1000
    assert sum(len(text) for each in every for text in each.instructions) <= 128 << 10
    assert sum(len(each.instructions) + each.left_out for each in every) == 1000
    assert ptx_by_line("other.py", many) == ()
