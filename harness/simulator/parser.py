"""PTX text -> `Module`."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.simulator.ptx import (
    TYPE_BYTES,
    Address,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    PtxSyntaxError,
    Register,
    Space,
    Symbol,
    Variable,
    Vector,
)

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PIECES = re.compile(r'("(?:\\.|[^"\\])*"|[{};])')
_NAME = r"[A-Za-z_$%][\w$]*"
_LABEL = re.compile(rf"\s*({_NAME})\s*:(?!:)\s*")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:\\.|[^"\\])*)"')
_GUARD = re.compile(rf"@(!?)\s*({_NAME})\s+")
_FLOAT = re.compile(r"0[fFdD]([0-9A-Fa-f]+)$")
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)[uU]?$")
_DECIMAL = re.compile(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?$")
_SPECIAL = re.compile(r"%[a-z]\w*(?:\.[xyzw])?$")
_SYMBOL = re.compile(rf"({_NAME})\s*(?:([+-])\s*(\w+))?$")
_GENERIC = re.compile(rf"generic\(\s*({_NAME})\s*\)\s*(?:([+-])\s*(\w+))?$")
_LINE_DIRECTIVE = re.compile(r"\s*\.(?:loc|file|version|target|address_size|section)\b")
_DECLARATION = re.compile(
    r"\s*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const|shared|local|param|tex)\b"
)
_FUNCTION = re.compile(r"\s*(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b")


def parse(text: str) -> Module:
    """The module that PTX `text` describes.

    Raises:
        PtxSyntaxError: the text cannot be read.
    """
    return _Parser(_COMMENT.sub(_without_comment, text)).module()


def _without_comment(match: re.Match[str]) -> str:
    token = match.group()
    return token if token.startswith('"') else " " + "\n" * token.count("\n")


@dataclass
class _Scope:
    """Names declared between a pair of braces, and what each is called in the flat body."""

    parent: _Scope | None
    registers: dict[str, str]
    names: dict[str, str] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        scope: _Scope | None = self
        while scope:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return name


@dataclass
class _Body:
    """A function under construction."""

    registers: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    statements: list[tuple[str, _Scope, Location | None]] = field(default_factory=list)
    targets: dict[str, tuple[_Scope, tuple[str, ...]]] = field(default_factory=dict)
    """Labels in lists, which may stand before the labels themselves."""
    scopes: int = 0


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.files = {int(n): name for n, name in _FILE.findall(text)}
        self.version = self.target = ""
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.location: Location | None = None
        self.places: dict[tuple[int, int, int], Location] = {}
        """The last `.loc` at each place, with the chain through which it was inlined."""

    def module(self) -> Module:
        statements = self._statements()
        for kind, text in statements:
            if kind == "{":
                self._function(text, statements)
            elif _FUNCTION.match(text):
                name, is_kernel, parameters, results, directives = _header(text)
                self.functions.setdefault(
                    name,
                    Function(name, is_kernel, parameters, results, {}, {}, (), (), {}, directives),
                )
            elif _DECLARATION.match(text):
                for variable in _variables(text):
                    self.variables[variable.name] = variable
        return Module(self.version, self.target, self.functions, self.variables, self.files)

    def _statements(self) -> Iterator[tuple[str, str]]:
        """Yields (kind, text): kind is ";" for a statement, "{" and "}" for a scope's ends.

        A scope is opened by a brace at the start of a statement or after a function's header; any
        other brace belongs to an operand or an initialiser.
        """
        pending = ""
        depth = 0
        skipping = 0
        for line in self.lines:
            if skipping or (not pending.strip() and _LINE_DIRECTIVE.match(line)):
                skipping = self._line_directive(line, skipping)
                continue
            for piece in _PIECES.split(line):
                if piece == ";" and depth == 0:
                    yield ";", pending
                    pending = ""
                elif (
                    piece == "{"
                    and depth == 0
                    and (not pending.strip() or _FUNCTION.match(pending))
                ):
                    yield "{", pending
                    pending = ""
                elif piece == "}" and depth == 0:
                    if pending.strip():
                        yield ";", pending  # a label
                    yield "}", ""
                    pending = ""
                else:
                    depth += {"{": 1, "}": -1}.get(piece, 0)
                    pending += piece
            if depth == 0 and _LABEL.fullmatch(pending):
                yield ";", pending
                pending = ""
            elif pending.strip():
                pending += "\n"

    def _line_directive(self, line: str, skipping: int) -> int:
        """Handles a directive that ends with its line; returns the state of skipping a section."""
        stripped = line.strip()
        if skipping or stripped.startswith(".section"):
            return 0 if "}" in stripped else 1
        if stripped.startswith(".loc"):
            self._loc(stripped)
        elif stripped.startswith(".version"):
            self.version = stripped.split()[1]
        elif stripped.startswith(".target"):
            self.target = stripped.split(None, 1)[1]
        return 0

    def _loc(self, line: str) -> None:
        place = _LOC.match(line)
        if not place:
            raise PtxSyntaxError("not a source location", line)
        key = (int(place[1]), int(place[2]), int(place[3]))
        if key[1] == 0:
            return  # code that belongs to no line: the last one known tells more
        inlined = _INLINED.search(line)
        outer = None
        if inlined:
            at = (int(inlined[1]), int(inlined[2]), int(inlined[3]))
            outer = self.places.get(at) or self._place(at, None)
        self.location = self.places[key] = self._place(key, outer)

    def _place(self, key: tuple[int, int, int], outer: Location | None) -> Location:
        return Location(self.files.get(key[0], ""), key[1], key[2], outer)

    def _function(self, header: str, statements: Iterator[tuple[str, str]]) -> None:
        name, is_kernel, parameters, results, directives = _header(header)
        self.location = None
        self.places = {}
        body = _Body()
        scope = _Scope(None, body.registers)
        depth = 1
        for kind, text in statements:
            if kind == "{":
                body.scopes += 1
                scope, depth = _Scope(scope, body.registers), depth + 1
            elif kind == "}":
                depth -= 1
                if depth == 0:
                    break
                scope = scope.parent or scope
            else:
                self._statement(text, scope, body)
        items = tuple(_item(text, scope, at) for text, scope, at in body.statements)
        self.functions[name] = Function(
            name,
            is_kernel,
            parameters,
            results,
            body.registers,
            body.ranges,
            tuple(body.variables),
            items,
            {n: tuple(map(s.resolve, labels)) for n, (s, labels) in body.targets.items()},
            directives,
        )

    def _statement(self, text: str, scope: _Scope, body: _Body) -> None:
        while label := _LABEL.match(text):
            text = text[label.end() :]
            if text.startswith((".branchtargets", ".calltargets")):
                targets = tuple(t.strip() for t in text.split(None, 1)[1].split(","))
                body.targets[_declare(label[1], scope, body)] = scope, targets
                return
            if text.startswith(".callprototype"):
                return
            body.statements.append((_declare(label[1], scope, body) + ":", scope, None))
        text = text.strip()
        if not text or text.startswith(".pragma"):
            return
        if text.startswith(".reg"):
            _declare_registers(text, scope, body)
        elif _DECLARATION.match(text):
            for variable in _variables(text):
                unique = _declare(variable.name, scope, body)
                body.variables.append(
                    Variable(
                        unique,
                        variable.space,
                        variable.type,
                        variable.size,
                        variable.align,
                        variable.element,
                        variable.values,
                        variable.is_extern,
                    )
                )
        elif text.startswith("."):
            raise PtxSyntaxError("a directive that is not read", text)
        else:
            body.statements.append((text, scope, self.location))


def _declare(name: str, scope: _Scope, body: _Body) -> str:
    unique = f"{name}${body.scopes}" if scope.parent else name
    scope.names[name] = unique
    return unique


def _declare_registers(text: str, scope: _Scope, body: _Body) -> None:
    # Inline assembly of cuda_fp16.hpp has no space there.
    _, kind, names = text.replace(".reg.", ".reg .", 1).split(None, 2)
    kind = kind.lstrip(".")
    if kind.startswith(("v2", "v4")):
        raise PtxSyntaxError("vector registers are not read", text)
    for raw in names.split(","):
        name = raw.strip()
        ranged = re.fullmatch(r"(\S+?)<(\d+)>", name)
        if not ranged:
            body.registers[_declare(name, scope, body)] = kind
        elif scope.parent:
            for number in range(int(ranged[2])):
                body.registers[_declare(f"{ranged[1]}{number}", scope, body)] = kind
        else:
            body.ranges[ranged[1]] = (int(ranged[2]), kind)


def _header(
    text: str,
) -> tuple[str, bool, tuple[Parameter, ...], tuple[Parameter, ...], tuple[str, ...]]:
    """Name, whether a kernel, parameters, results and directives of a function's header."""
    start = _FUNCTION.match(text)
    if not start:
        raise PtxSyntaxError("not a function", text)
    rest = text[start.end() :].strip()
    rest = re.sub(r"^\.attribute\([^)]*\)\s*", "", rest)
    results: tuple[Parameter, ...] = ()
    if rest.startswith("("):
        inner, rest = _parenthesised(rest)
        results = _layout(inner)
    name = re.match(rf"\s*({_NAME})\s*", rest)
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
    """Parameters laid out one after the other, each at its own alignment (CUDA C++'s rule)."""
    parameters = []
    offset = 0
    for declaration in _split(text):
        if not declaration.strip():
            continue
        # A pointer's attributes (`.ptr .global .align 16`) tell about what it points to.
        plain = re.sub(
            r"\.ptr\b(?:\s*\.(?:global|const|shared|local))?(?:\s*\.align\s+\d+)?", "", declaration
        )
        (variable,) = _variables(plain)
        offset = -(-offset // variable.align) * variable.align
        parameters.append(Parameter(variable.name, offset, variable.size, variable.align))
        offset += variable.size
    return tuple(parameters)


def _variables(text: str) -> tuple[Variable, ...]:
    """The variables of one declaration: `.const .align 4 .b8 a[64] = {0, 1}, b[4];`."""
    is_extern = bool(re.match(r"\s*\.extern\b", text))
    text = re.sub(r"\.attribute\([^)]*\)", "", text).strip()
    align = vector = 0
    space: Space = "param"
    kind = ""
    while word := re.match(r"\.(\w+)(?:::\w+)?\s*", text):
        text = text[word.end() :]
        if word[1] == "align":
            number = re.match(r"\d+\s*", text)
            if not number:
                raise PtxSyntaxError("an alignment without a number", text)
            align, text = int(number[0]), text[number.end() :]
        elif word[1] in ("global", "const", "shared", "local", "param", "tex"):
            space = word[1]  # type: ignore[assignment]
        elif word[1] in ("v2", "v4"):
            vector = int(word[1][1])
        elif word[1] in TYPE_BYTES:
            kind = word[1]
    if not kind:
        raise PtxSyntaxError("a declaration of a type that is not known", text)
    element = TYPE_BYTES[kind]
    variables = []
    for part in _split(text):
        declarator, _, initialiser = part.partition("=")
        name = re.match(rf"\s*({_NAME})", declarator)
        if not name:
            raise PtxSyntaxError("a declaration without a name", text)
        values = tuple(_initial_values(initialiser))
        count = max(vector, 1)
        for dimension in re.findall(r"\[\s*(\d*)\s*\]", declarator):
            unsized = 0 if not values else len(values)
            count *= int(dimension) if dimension else unsized
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
    """The elements of an initialiser, nested braces flattened."""
    text = text.strip()
    if not text:
        return []
    if text.startswith("{"):
        return [value for part in _split(text[1:-1]) for value in _initial_values(part)]
    generic = _GENERIC.match(text)
    operand = (
        Symbol(generic[1], _signed(generic[2], generic[3]))
        if generic
        else _operand(text, _Scope(None, {}))
    )
    if isinstance(operand, Immediate):
        return [operand.value]
    if isinstance(operand, Symbol):
        return [operand]
    raise PtxSyntaxError("an initialiser of a kind that is not read", text)


def _signed(sign: str | None, digits: str | None) -> int:
    return 0 if digits is None else int(digits, 0) * (-1 if sign == "-" else 1)


def _split(text: str) -> list[str]:
    """`text` at its commas, save those within brackets."""
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


def _item(text: str, scope: _Scope, location: Location | None) -> Instruction | Label:
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
    operands = tuple(_operand(part, scope) for part in _split(arguments))
    return Instruction(opcode, tuple(modifiers), operands, guard, location, text)


def _operand(text: str, scope: _Scope) -> Operand:
    text = text.strip()
    if text[0] == "{":
        return Vector(tuple(_operand(part, scope) for part in _split(text[1:-1])))
    if text[0] == "(":
        return Group(tuple(_operand(part, scope) for part in _split(text[1:-1])))
    if text[0] == "[":
        return _address(text, scope)
    if text[0] == "!":
        return Negated(Register(scope.resolve(text[1:].strip())))
    if "|" in text:
        first, second = text.split("|")
        return Pair(Register(scope.resolve(first.strip())), Register(scope.resolve(second.strip())))
    if number := _number(text):
        return number
    if text[0] == "%" and ("." in text or _SPECIAL.match(text)):
        return Register(scope.resolve(text))
    symbol = _SYMBOL.match(text)
    if not symbol:
        raise PtxSyntaxError("an operand of a kind that is not read", text)
    name = scope.resolve(symbol[1])
    if symbol[2] is None and (text[0] == "%" or text == "_" or name in scope.registers):
        return Register(name)
    return Symbol(name, _signed(symbol[2], symbol[3]))


def _number(text: str) -> Immediate | None:
    if text in ("WARP_SZ",):
        return Immediate(32)
    if match := _FLOAT.match(text):
        return Immediate(int(match[1], 16), 32 if len(match[1]) <= 8 else 64)
    if match := _INTEGER.match(text):
        value = int(match[2], 0) if not match[2].isdecimal() else int(match[2])
        return Immediate(-value if match[1] == "-" else value)
    if _DECIMAL.match(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    return None


def _address(text: str, scope: _Scope) -> Address | Group:
    parts = _split(text[1:-1])
    if len(parts) > 1:
        return Group(tuple(_operand(part, scope) for part in parts))
    inner = parts[0].strip()
    match = re.match(r"(.+?)\s*([+-])\s*(-?\w+)$", inner)
    base = _operand(match[1] if match else inner, scope)
    offset = _signed(match[2], match[3]) if match else 0
    if isinstance(base, Symbol):
        return Address(Symbol(base.name), base.offset + offset)
    if not isinstance(base, Register | Immediate):
        raise PtxSyntaxError("an address of a kind that is not read", text)
    return Address(base, offset)
