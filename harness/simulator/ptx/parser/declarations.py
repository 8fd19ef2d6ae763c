"""Parser of PTX declarations: variables with their initialisers, and headers of functions."""

from __future__ import annotations

import re

from harness.simulator.ptx.parser.operands import (
    NAME,
    PtxScope,
    integer,
    read_operand,
    signed,
    split,
)
from harness.simulator.ptx.ptx import (
    TYPE_BYTES,
    Immediate,
    Parameter,
    PtxSyntaxError,
    Symbol,
    Variable,
)
from harness.simulator.ptx.space import Space, space_named

_SPACES = "|".join(space for space in Space if space is not Space.GENERIC)
DECLARATION = re.compile(rf"\s*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:{_SPACES})\b")
FUNCTION = re.compile(r"\s*(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b")
_POINTER = re.compile(rf"\.ptr\b(?:\s*\.(?:{_SPACES}))?(?:\s*\.align\s+\d+)?")
_GENERIC = re.compile(rf"generic\(\s*({NAME})\s*\)\s*(?:([+-])\s*(\w+))?$")


def read_header(
    text: str,
) -> tuple[str, bool, tuple[Parameter, ...], tuple[Parameter, ...], tuple[str, ...]]:
    """Parse the header of a function (`.entry` or `.func`), up to its body.

    Returns:
        A tuple of the function's name, a bool that is True for a kernel, the parameters, the
        results, and the performance directives.

    Raises:
        PtxSyntaxError: The text is not the header of a function.
    """
    start = FUNCTION.match(text)
    if not start:
        raise PtxSyntaxError("not a function", text)
    rest = text[start.end() :].strip()
    rest = re.sub(r"^\.attribute\([^)]*\)\s*", "", rest)
    results: tuple[Parameter, ...] = ()
    if rest.startswith("("):
        inner, rest = _parenthesised(rest)
        results = _layout(inner)
    name = re.match(rf"\s*({NAME})\s*", rest)
    if not name:
        raise PtxSyntaxError("a function without a name", text)
    rest = rest[name.end() :]
    parameters: tuple[Parameter, ...] = ()
    if rest.startswith("("):
        inner, rest = _parenthesised(rest)
        parameters = _layout(inner)
    directives = tuple(line.strip() for line in re.split(r"\n|(?=\.)", rest) if line.strip())
    return name[1], start[1] == "entry", parameters, results, directives


def _parenthesised(text: str) -> tuple[str, str]:
    depth = 0
    for i, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[1:i], text[i + 1 :].lstrip()
    raise PtxSyntaxError("a parenthesis is not closed", text)


def _layout(text: str) -> tuple[Parameter, ...]:
    """Parse a list of parameters; give each parameter the next offset that its alignment allows.

    CUDA C++ lays out the arguments of a kernel in the same way.
    """
    parameters = []
    offset = 0
    for declaration in split(text):
        if not declaration.strip():
            continue
        # The attributes of a pointer (`.ptr .global .align 16`) describe the memory that it points
        # to.
        plain = _POINTER.sub("", declaration)
        (variable,) = read_variables(plain)
        offset = -(-offset // variable.align) * variable.align
        parameters.append(Parameter(variable.name, offset, variable.size, variable.align))
        offset += variable.size
    return tuple(parameters)


def read_variables(text: str) -> tuple[Variable, ...]:
    """Parse a declaration of variables such as `.const .align 4 .b8 a[64] = {0, 1}, b[4];`.

    Raises:
        PtxSyntaxError: The declaration cannot be parsed.
    """
    is_extern = bool(re.match(r"\s*\.extern\b", text))
    text = re.sub(r"\.attribute\([^)]*\)", "", text).strip()
    align = vector = 0
    space = Space.PARAM
    kind = ""
    while word := re.match(r"\.(\w+)(?:::\w+)?\s*", text):
        text = text[word.end() :]
        if word[1] == "align":
            number = re.match(r"\d+\s*", text)
            if not number:
                raise PtxSyntaxError("an alignment without a number", text)
            align, text = integer(number[0].strip()), text[number.end() :]
        elif named := space_named(word[1]):
            space = named
        elif word[1] in ("v2", "v4"):
            vector = int(word[1][1])
        elif word[1] in TYPE_BYTES:
            kind = word[1]
    if not kind:
        raise PtxSyntaxError("a declaration of an unknown type", text)
    element = TYPE_BYTES[kind]
    variables = []
    for part in split(text):
        declarator, _, initialiser = part.partition("=")
        name = re.match(rf"\s*({NAME})", declarator)
        if not name:
            raise PtxSyntaxError("a declaration without a name", text)
        values = tuple(_initial_values(initialiser))
        count = max(vector, 1)
        for dimension in re.findall(r"\[\s*(\w*)\s*\]", declarator):
            unsized = 0 if not values else len(values)
            count *= integer(dimension) if dimension else unsized
        variables.append(
            Variable(
                name[1],
                space,
                kind,
                count * element,
                align or element * max(vector, 1),
                element,
                values,
                is_extern,
            )
        )
    return tuple(variables)


def _initial_values(text: str) -> list[int | Symbol]:
    """Return the elements of a variable's initialiser, in order; nested braces are flattened.

    An element is an integer, the bits of a float, or a symbol, which stands for its address.

    Raises:
        PtxSyntaxError: An element is neither a number nor a symbol.
    """
    text = text.strip()
    if not text:
        return []
    if text.startswith("{"):
        return [value for part in split(text[1:-1]) for value in _initial_values(part)]
    generic = _GENERIC.match(text)
    if generic:
        return [Symbol(generic[1], signed(generic[2], generic[3]))]
    operand = read_operand(text, PtxScope(None, {}))
    if isinstance(operand, Immediate):
        return [operand.value]
    if isinstance(operand, Symbol):
        return [operand]
    raise PtxSyntaxError("an initialiser of a kind that is not supported", text)
