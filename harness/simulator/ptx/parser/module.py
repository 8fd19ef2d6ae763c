"""Parser of a whole PTX module: functions with nested scopes, variables and source locations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.simulator.ptx.parser.declarations import (
    DECLARATION,
    FUNCTION,
    read_header,
    read_variables,
)
from harness.simulator.ptx.parser.operands import NAME, PtxScope, integer, read_statement
from harness.simulator.ptx.ptx import Function, Location, Module, PtxSyntaxError, Variable

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PIECES = re.compile(r'("(?:\\.|[^"\\])*"|[{};])')
_LABEL = re.compile(rf"\s*({NAME})\s*:(?!:)\s*")
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+[\w$]+(?:\s*\+\s*\d+)?)?"
    r"(?:\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
# Directives that occupy a whole line. Only a `.loc` may have an instruction behind it.
_WHOLE_LINE = re.compile(
    r"\.(?:file\s+\d+\s+"
    r'"(?:\\.|[^"\\])*"(?:\s*,\s*\d+)*|version\s+[\d.]+|target\s+[\w, ]+|address_size\s+\d+)'
)
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:\\.|[^"\\])*)"')
_LINE_DIRECTIVE = re.compile(r"\s*\.(?:loc|file|version|target|address_size|section)\b")


def parse(text: str) -> Module:
    """Parse the text of a PTX file.

    Raises:
        PtxSyntaxError: The text cannot be parsed.
    """
    return _Parser(_COMMENT.sub(_without_comment, text)).module()


def _without_comment(match: re.Match[str]) -> str:
    token = match.group()
    return token if token.startswith('"') else " " + "\n" * token.count("\n")


@dataclass
class _Body:
    """The parts of a function's body that have been read so far.

    Attributes:
        registers: Type of each register that is declared by its own name.
        ranges: Count and type of each range of registers (`%r<81>`), by prefix.
        variables: Variables that the function declares.
        statements: Text, scope and source location of each instruction or label.
        targets: Scope and labels of each list of branch targets, by the list's name. The labels may
            be declared after the list.
        scopes: Number of nested scopes (`{ ... }`) so far.
    """

    registers: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    statements: list[tuple[str, PtxScope, Location | None]] = field(default_factory=list)
    targets: dict[str, tuple[PtxScope, tuple[str, ...]]] = field(default_factory=dict)
    scopes: int = 0


class _Parser:
    """Parser of one PTX file.

    The statements of a function are parsed only when the function has ended, because a statement
    may name a label that is declared later.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.files = {int(n): name for n, name in _FILE.findall(text)}
        self.version = self.target = ""
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.location: Location | None = None
        self.places: dict[tuple[int, int, int], Location] = {}
        """The last `.loc` of each place, with its chain of inlined calls."""

    def module(self) -> Module:
        statements = self._statements()
        for kind, text in statements:
            if kind == "{":
                self._function(text, statements)
            elif FUNCTION.match(text):
                name, is_kernel, parameters, results, directives = read_header(text)
                self.functions.setdefault(
                    name,
                    Function(name, is_kernel, parameters, results, {}, {}, (), (), {}, directives),
                )
            elif DECLARATION.match(text):
                for variable in read_variables(text):
                    self.variables[variable.name] = variable
        return Module(self.version, self.target, self.functions, self.variables, self.files)

    def _statements(self) -> Iterator[tuple[str, str]]:
        """Yield the statements and braces of the file as pairs (kind, text).

        A statement has the kind ";". The start of a scope has the kind "{"; its text is the
        function's header, or blank for a nested scope. The end of a scope has the kind "}" and no
        text. Braces of operands and initialisers are part of a statement.
        """
        pending = ""
        depth = 0
        skipping = False
        for line in self.lines:
            if skipping or (not pending.strip() and _LINE_DIRECTIVE.match(line)):
                skipping, line = self._line_directive(line, skipping)
            for piece in _PIECES.split(line):
                if piece == ";" and depth == 0:
                    yield ";", pending
                    pending = ""
                elif (
                    piece == "{" and depth == 0 and (not pending.strip() or FUNCTION.match(pending))
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

    def _line_directive(self, line: str, skipping: bool) -> tuple[bool, str]:
        """Read the directive that begins a line, such as `.loc` or `.version`.

        Sections of debug information (`.section`) are skipped up to their closing brace.

        Args:
            line: The line.
            skipping: Whether the line is within a section.

        Returns:
            Whether the next line is within a section, and what follows the directive.

        Raises:
            PtxSyntaxError: The directive is invalid, or something follows it that may not.
        """
        stripped = line.strip()
        if skipping or stripped.startswith(".section"):
            _, brace, rest = stripped.partition("}")
            return not brace, rest
        if stripped.startswith(".loc"):
            return False, self._loc(stripped)
        if not _WHOLE_LINE.fullmatch(stripped):
            raise PtxSyntaxError("a directive that is not supported", stripped)
        if stripped.startswith(".version"):
            self.version = stripped.split()[1]
        elif stripped.startswith(".target"):
            self.target = stripped.split(None, 1)[1]
        return False, ""

    def _loc(self, line: str) -> str:
        """Read a source location; return what follows it, such as an instruction."""
        place = _LOC.match(line)
        if not place:
            raise PtxSyntaxError("not a source location", line)
        key = (int(place[1]), int(place[2]), int(place[3]))
        # Code without a line keeps the last known one, which is more useful.
        if key[1]:
            outer = None
            if place[4]:
                at = (int(place[4]), int(place[5]), int(place[6]))
                outer = self.places.get(at) or self._place(at, None)
            self.location = self.places[key] = self._place(key, outer)
        return line[place.end() :]

    def _place(self, key: tuple[int, int, int], outer: Location | None) -> Location:
        return Location(self.files.get(key[0], ""), key[1], key[2], outer)

    def _function(self, header: str, statements: Iterator[tuple[str, str]]) -> None:
        name, is_kernel, parameters, results, directives = read_header(header)
        self.location = None
        self.places = {}
        body = _Body()
        scope = PtxScope(None, body.registers)
        depth = 1
        for kind, text in statements:
            if kind == "{":
                body.scopes += 1
                scope, depth = PtxScope(scope, body.registers), depth + 1
            elif kind == "}":
                depth -= 1
                if depth == 0:
                    break
                scope = scope.parent or scope
            else:
                self._statement(text, scope, body)
        items = tuple(read_statement(text, scope, at) for text, scope, at in body.statements)
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

    def _statement(self, text: str, scope: PtxScope, body: _Body) -> None:
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
        elif DECLARATION.match(text):
            for variable in read_variables(text):
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
            raise PtxSyntaxError("a directive that is not supported", text)
        else:
            body.statements.append((text, scope, self.location))


def _declare(name: str, scope: PtxScope, body: _Body) -> str:
    """Declare a name in a scope, and return a replacement that is unique in the whole function."""
    unique = f"{name}${body.scopes}" if scope.parent else name
    scope.names[name] = unique
    return unique


def _declare_registers(text: str, scope: PtxScope, body: _Body) -> None:
    # Inline assembly of cuda_fp16.hpp has no space after `.reg`.
    _, kind, names = text.replace(".reg.", ".reg .", 1).split(None, 2)
    kind = kind.lstrip(".")
    if kind.startswith(("v2", "v4")):
        raise PtxSyntaxError("vector registers are not supported", text)
    for raw in names.split(","):
        name = raw.strip()
        ranged = re.fullmatch(r"(\S+?)<(\d+)>", name)
        if not ranged:
            body.registers[_declare(name, scope, body)] = kind
        elif scope.parent:
            for number in range(integer(ranged[2])):
                body.registers[_declare(f"{ranged[1]}{number}", scope, body)] = kind
        else:
            body.ranges[ranged[1]] = (integer(ranged[2]), kind)
