"""Parser of PTX instructions and their operands."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

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
    PtxSyntaxError,
    Register,
    Symbol,
    Vector,
)

NAME = r"[A-Za-z_$%][\w$]*"
"""Pattern of a name."""
_GUARD = re.compile(rf"@(!?)\s*({NAME})\s+")
_FLOAT = re.compile(r"0[fFdD]([0-9A-Fa-f]+)$")
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)[uU]?$")
_UNSIGNED = re.compile(
    r"(?:(?P<octal>0[0-7]+)|(?P<other>0[xX][0-9A-Fa-f]+|0[bB][01]+|[1-9][0-9]*|0))[uU]?"
)
_DECIMAL = re.compile(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?$")
_SPECIAL = re.compile(r"%[a-z]\w*(?:\.[xyzw])?$")
_SYMBOL = re.compile(rf"({NAME})\s*(?:([+-])\s*(\w+))?$")


@dataclass
class PtxScope:
    """The names that a PTX scope (`{ ... }`) declares.

    A function's body becomes one flat list of instructions. So the parser replaces each declared
    name by a name that is unique in the function.

    Attributes:
        parent: The enclosing scope, or None for the body of the function.
        registers: Type of each declared register of the function, by unique name.
        names: Unique name of each name that this scope declares.
    """

    parent: PtxScope | None
    registers: dict[str, str]
    names: dict[str, str] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """Return the unique name for a name that is used in this scope.

        A name that neither this scope nor an enclosing scope declares is returned unchanged.
        """
        scope: PtxScope | None = self
        while scope:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return name


def read_statement(text: str, scope: PtxScope, location: Location | None) -> Instruction | Label:
    """Parse an instruction such as `@p add.s32 %r1, %r2, 4`, or a label that ends with ":".

    Args:
        text: The statement, without the semicolon.
        scope: The scope that contains the statement.
        location: Source location of the statement, or None.

    Raises:
        PtxSyntaxError: The statement cannot be parsed.
    """
    if text.endswith(":"):
        return Label(text[:-1])
    text = " ".join(text.split())
    guard = None
    rest = text
    if match := _GUARD.match(text):
        guard = Guard(Register(scope.resolve(match[2])), match[1] == "!")
        rest = text[match.end() :]
    mnemonic, _, arguments = rest.partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    operands = tuple(read_operand(part, scope) for part in split(arguments))
    return Instruction(opcode, tuple(modifiers), operands, guard, location, text)


def read_operand(text: str, scope: PtxScope) -> Operand:
    """Parse one operand of an instruction, such as `%r1`, `[%rd2+4]` or `{%f1, %f2}`.

    Raises:
        PtxSyntaxError: The operand cannot be parsed.
    """
    text = text.strip()
    if text[0] == "{":
        return Vector(tuple(read_operand(part, scope) for part in split(text[1:-1])))
    if text[0] == "(":
        return Group(tuple(read_operand(part, scope) for part in split(text[1:-1])))
    if text[0] == "[":
        return _address(text, scope)
    if text[0] == "!":
        return Negated(Register(scope.resolve(text[1:].strip())))
    if "|" in text:
        first, second = text.split("|")
        return DestinationPair(
            Register(scope.resolve(first.strip())), Register(scope.resolve(second.strip()))
        )
    if number := _number(text):
        return number
    if text[0] == "%" and ("." in text or _SPECIAL.match(text)):
        return Register(scope.resolve(text))
    symbol = _SYMBOL.match(text)
    if not symbol:
        raise PtxSyntaxError("an operand of a kind that is not supported", text)
    name = scope.resolve(symbol[1])
    if symbol[2] is None and (text[0] == "%" or text == "_" or name in scope.registers):
        return Register(name)
    return Symbol(name, signed(symbol[2], symbol[3]))


def _number(text: str) -> Immediate | None:
    if text in ("WARP_SZ",):
        return Immediate(32)
    if match := _FLOAT.match(text):
        return Immediate(int(match[1], 16), 32 if len(match[1]) <= 8 else 64)
    if match := _INTEGER.match(text):
        return Immediate(signed(match[1], match[2]))
    if _DECIMAL.match(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    return None


def _address(text: str, scope: PtxScope) -> Address | Group:
    parts = split(text[1:-1])
    if len(parts) > 1:
        return Group(tuple(read_operand(part, scope) for part in parts))
    inner = parts[0].strip()
    match = re.match(r"(.+?)\s*([+-])\s*(-?\w+)$", inner)
    base = read_operand(match[1] if match else inner, scope)
    offset = signed(match[2], match[3]) if match else 0
    if isinstance(base, Symbol):
        return Address(Symbol(base.name), base.offset + offset)
    if not isinstance(base, Register | Immediate):
        raise PtxSyntaxError("an address of a kind that is not supported", text)
    return Address(base, offset)


def split(text: str) -> list[str]:
    """Split `text` at its commas, but not at commas within (), [] or {}."""
    if not any(bracket in text for bracket in "([{"):
        return text.split(",") if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text[start:].strip() else parts


def signed(sign: str | None, digits: str | None) -> int:
    """Return the integer with this sign and these digits; 0 if `digits` is None.

    The digits may have a further minus sign, as in `+-4`.

    Raises:
        PtxSyntaxError: The digits are not an integer constant.
    """
    if digits is None:
        return 0
    value = -integer(digits[1:]) if digits.startswith("-") else integer(digits)
    return -value if sign == "-" else value


def integer(digits: str) -> int:
    """Return an unsigned integer constant; after a leading 0, its digits are octal.

    The rules are in the PTX ISA, "Integer Constants".

    Raises:
        PtxSyntaxError: The digits are not an integer constant.

    >>> [integer(digits) for digits in ("10", "010", "0x10", "0b10", "10U")]
    [10, 8, 16, 2, 10]
    """
    if not (match := _UNSIGNED.fullmatch(digits)):
        raise PtxSyntaxError("not an integer", digits)
    return int(match["octal"], 8) if match["octal"] else int(match["other"], 0)
