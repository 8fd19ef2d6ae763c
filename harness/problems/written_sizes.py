"""Signs in a submission's text that it only supports the sizes in the reference's file.

The signs are integers that equal such a size or a product of these sizes. They count only for sizes
that the simulator cuts down, and only in code that a call can reach. Comments, docstrings and
copies of the reference's `get_inputs` do not count.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.problems.source_numbers import integers_in, without_comments

Sign = Literal["clear", "possible"]
"""How sure it is that a text depends on the problem's own sizes."""

Shapes = Sequence[tuple[int, ...]]

LEAST_SIZE = 8
"""The smallest size that counts; smaller numbers are in any text."""

# The largest block. Smaller numbers are often sizes of blocks, tiles or steps.
_MOST_THREADS = 1024
# Limits of CUDA that equal common sizes: bytes of shared memory, and blocks along y, rounded.
_LIMITS = frozenset({48 << 10, 1 << 16})
# Numbers that one thread reads or writes at a time.
_AT_ONCE = (1, 2, 4, 8)
# A shape with more dimensions has too many products to be compared.
_MOST_DIMENSIONS = 8
# Characters before and behind a number that show what it is.
_BEFORE, _BEHIND = 80, 24

_MADE_FOR_TESTS = ("get_inputs", "get_init_inputs")
_PRODUCT = re.compile(r"(?<![\w.'])\d{1,12}(?:\s*\*\s*\d{1,12}){1,5}(?![\w.'])")
_SHIFTED = re.compile(r"\b1[uU]?[lL]{0,2}\s*<<\s*(\d{1,2})\b")
_NAME_OF = re.compile(r"(?:#\s*define\s+(\w+)\s+|(\w+)\s*=\s*|dim3\s+(\w+)\s*[({][^(){}]*)\(?$")
_OF_BLOCKS = re.compile(
    r"block|tile|thread|warp|stage|roll|vec|chunk|lane|mma|^[btw][mnkxys]$", re.IGNORECASE
)
_BEFORE_BLOCKS = re.compile(
    r"(?:[/%]|[+-]=|(?<!<)<<|blockIdx\.[xyz]\s*\*|__launch_bounds__\s*\(|<<<[^>;]*,"
    r"|__shared__[^;]*)\s*$"
)
_BEHIND_BLOCKS = re.compile(r"\s*(?:\*\s*blockIdx|>>>)")
# A launch with a number of blocks that the input's size does not change.
_FIXED_GRID = re.compile(
    r"<<<\s*(?!1\s*,)\d+\s*,|dim3\s+\w*(?:grid|blocks)\w*\s*[({][\d\s,]+[)}]", re.IGNORECASE
)


@dataclass(frozen=True)
class Stated:
    """The integers that the code of a submission states.

    Attributes:
        every: All integers in the code.
        sizes: Integers that are used at least once as something other than the size of a block or a
            tile.
        named: Integers with a name, such as `#define ROWS 128`, that does not suggest the size of a
            block or a tile.
        has_fixed_grid: True if a launch has a number of blocks that is written into the code.
    """

    every: frozenset[int]
    sizes: frozenset[int]
    named: frozenset[int]
    has_fixed_grid: bool


def sign_of(text: str, constants: Iterable[int], native: Shapes, cut: Shapes) -> Sign | None:
    """Return how clearly a submission's text depends on the sizes in the reference's file.

    The result is "clear", "possible", or None for no sign. A size above 1024, a size that is not a
    power of two (such as 224), and a named size are clear signs.

    Args:
        text: The submission's text.
        constants: Values, in the reference's file, of the constants that are cut down for the
            simulator.
        native: Shapes of the inputs and outputs at the sizes in the reference's file.
        cut: Shapes of the same tensors after they are cut down.
    """
    stated = stated_in(text)
    single = {*constants, *_products(native, cut, most=1)}
    wanted = {each for each in (*single, *_products(native, cut)) if each >= LEAST_SIZE}
    parts = wanted | {each // n for each in single for n in _AT_ONCE if each % n == 0}
    grids = {*_grids(stated.every, {math.prod(shape) for shape in native})}
    large = {each for each in stated.sizes & parts - _LIMITS if each > _MOST_THREADS}
    odd = {each for each in stated.sizes & wanted if each & each - 1 and each > 2 * LEAST_SIZE}
    if large or odd or stated.named & wanted or any(each > _MOST_THREADS for each in grids):
        return "clear"
    is_possible = stated.has_fixed_grid or bool(stated.sizes & (wanted | grids))
    return "possible" if is_possible else None


def stated_in(text: str) -> Stated:
    r"""Return the integers in a submission's code; empty sets if the text does not parse.

    >>> stated = stated_in('run("x[2 * 100]; int rows = 128; int tile = 16; // 99"); size = 77')
    >>> sorted(stated.every), sorted(stated.named)
    ([2, 16, 100, 128, 200], [128])
    """
    try:
        nodes = [*_code(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []
    texts = [without_comments(each.value) for each in nodes if isinstance(each.value, str)]
    found = [each for text in texts for each in _in_cuda(text)]
    found += [(each.value, False, "") for each in nodes if type(each.value) is int]
    return Stated(
        every=frozenset(number for number, _, _ in found),
        sizes=frozenset(number for number, is_of_block, _ in found if not is_of_block),
        named=frozenset(number for number, is_of_block, name in found if name and not is_of_block),
        has_fixed_grid=any(_FIXED_GRID.search(text) for text in texts),
    )


def _products(native: Shapes, cut: Shapes, most: int = _MOST_DIMENSIONS) -> Iterator[int]:
    """Yield each product of at most `most` dimensions of a shape, at least one of them cut down."""
    for shape, small in zip(native, cut, strict=False):
        if len(shape) != len(small) or len(shape) > _MOST_DIMENSIONS:
            continue
        pairs = [*zip(shape, small, strict=True)]
        for count in range(1, min(most, len(pairs)) + 1):
            for some in itertools.combinations(pairs, count):
                if any(size != less for size, less in some):
                    yield math.prod(size for size, _ in some)


def _grids(stated: Iterable[int], totals: Iterable[int]) -> Iterator[int]:
    """Yield the stated integers that may be the number of blocks for a whole tensor.

    Such a number of blocks, each with a stated number of threads, covers one of `totals` exactly.
    Each thread may process 1, 2, 4 or 8 elements.
    """
    numbers = [each for each in stated if each >= LEAST_SIZE]
    threads = {each * n for each in numbers if each <= _MOST_THREADS for n in _AT_ONCE}
    for total in totals:
        yield from (each for each in numbers if total % each == 0 and total // each in threads)


def _code(module: ast.Module) -> Iterator[ast.Constant]:
    """Yield the literals of a module that a call of `ModelNew` may use.

    A number that has a name at the top of the file counts if the rest of the code uses that name.
    """
    defined: dict[str, ast.expr] = {}
    used: list[ast.stmt] = []
    for statement in module.body:
        if isinstance(statement, ast.Assign) and _is_of_numbers(statement.value):
            for name in _names(statement.targets):
                defined[name] = statement.value
        elif not _is_for_tests(statement):
            used.append(statement)
    names = {name for statement in used for name in _names([statement])}
    # A number may be calculated from other ones.
    for name in reversed(defined):
        if name in names:
            names.update(_names([defined[name]]))
    of_names = (value for name, value in defined.items() if name in names)
    docstrings = {id(node) for each in used for node in _docstrings(each)}
    for root in (*used, *of_names):
        for node in ast.walk(root):
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                yield node


def _is_of_numbers(value: ast.expr) -> bool:
    kinds = (ast.Constant, ast.Tuple, ast.BinOp, ast.operator, ast.Name, ast.expr_context)
    nodes = [*ast.walk(value)]
    return all(isinstance(each, kinds) for each in nodes) and not any(
        isinstance(each, ast.Constant) and not isinstance(each.value, int) for each in nodes
    )


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    return (each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))


def _is_for_tests(statement: ast.stmt) -> bool:
    """Return whether a statement defines `get_inputs` or `get_init_inputs`, or tests `__name__`."""
    if isinstance(statement, ast.FunctionDef):
        return statement.name in _MADE_FOR_TESTS
    return isinstance(statement, ast.If) and "__name__" in _names([statement.test])


def _docstrings(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield all expressions in a class or a function that are statements, such as docstrings."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from (each.value for each in node.body if isinstance(each, ast.Expr))


def _in_cuda(code: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each integer of C++ code, whether it is the size of a block or tile, and its name.

    A product of literals, or a shift of 1, is an integer too. The name is "" for an integer without
    one.
    """
    for found in _PRODUCT.finditer(code):
        name = _name_before(code, found)
        yield math.prod(map(int, found[0].split("*"))), bool(_OF_BLOCKS.search(name)), name
    for found in _SHIFTED.finditer(code):
        name = _name_before(code, found)
        yield 1 << int(found[1]), bool(_OF_BLOCKS.search(name)), name
    for number, found in integers_in(code):
        name = _name_before(code, found)
        is_of_block = bool(_OF_BLOCKS.search(name)) or _is_beside_block(code, found, number)
        yield number, is_of_block, name


def _is_beside_block(code: str, found: re.Match[str], number: int) -> bool:
    """Return whether the text around a number shows that it is the size of a block or a tile.

    The result is False for numbers above 1024 and for those that are not powers of two.
    """
    if number > _MOST_THREADS or number & number - 1:
        return False
    before = code[max(0, found.start() - _BEFORE) : found.start()]
    behind = code[found.end() : found.end() + _BEHIND]
    return bool(_BEFORE_BLOCKS.search(before) or _BEHIND_BLOCKS.match(behind))


def _name_before(code: str, found: re.Match[str]) -> str:
    """Return the name that the code before a number gives it, or "" if there is none."""
    name = _NAME_OF.search(code[max(0, found.start() - _BEFORE) : found.start()])
    return next(filter(None, name.groups()), "") if name else ""
