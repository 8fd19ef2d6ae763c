"""The sizes that a reference in KernelBench's format states: its integer constants.

A reference has constants such as `batch_size = 128` or `input_shape = (64, 256)` at its top.
`get_inputs`, `get_init_inputs` or both read them, which keeps arguments and shapes consistent. So
the harness makes another configuration by replacing the constants in the file's text. If it varied
shapes and arguments separately, they could become inconsistent.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from typing import Any

_INPUTS = "get_inputs"
_READERS = (_INPUTS, "get_init_inputs")
_OF_VALUES = (
    ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Subscript, ast.Slice,
    ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
"""Parts of an expression whose value its text states."""
# A smaller number in a function may be the index of a dimension, or a parameter of a distribution.
_LEAST_SIZE = 8
_ONE = "n1["
# Functions of torch whose arguments are sizes, one by one or as the first argument.
_OF_SIZES = frozenset({"rand", "randn", "zeros", "ones", "empty", "full"})


def constants_of(tree: ast.Module) -> dict[str, int]:
    r"""Return the integer constants of a reference's inputs and constructor arguments.

    Args:
        tree: The file's syntax tree.

    Returns:
        Their values by name, in the file's order. The elements of a tuple or list are called
        `shape[0]`, `shape[1]`. A literal of at least 8 inside `get_inputs` or `get_init_inputs` is
        called `n128` after its value; all its occurrences are one constant. A literal 1 that is a
        size of a tensor in `get_inputs` is called `n1[0]` after its dimension; all inputs share
        this constant. A literal 1 in the last dimension is left out.

    >>> constants_of(ast.parse("n = 2 * 8; other = 3\ndef get_inputs(): return [zeros(n)]"))
    {'n': 16}
    """
    values = {name: _integer(node) for name, node in _places(tree)}
    return {name: value for name, value in values.items() if value is not None}


def values_of(tree: ast.Module) -> dict[str, object]:
    """Return the values that a file's top level assigns, by name, where the text states the value.

    A stated value is a number, a text, or a tuple, list or dict of these. It may use arithmetic and
    earlier names. A name whose value needs a call is left out.

    >>> values_of(ast.parse("n = 8; shape = (n, 2 * n); eps = 1e-5; x = len(shape); n += 1"))
    {'shape': (8, 16), 'eps': 1e-05}
    """
    values: dict[str, object] = {}
    for statement in tree.body:
        stated = _stated(statement, values)
        for name in stored_names(statement):
            values.pop(name, None)
        values.update(stated)
    return values


def _stated(statement: ast.stmt, known: Mapping[str, object]) -> dict[str, object]:
    """Return the values, by name, that an assignment states; empty if they cannot be calculated."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return {}
    if not all(_is_stated(node, known) for node in ast.walk(statement.value)):
        return {}
    # The assignment itself unpacks what it assigns. It contains no call.
    values = {**known, "__builtins__": {}}
    try:
        exec(compile(ast.Module([statement], []), "constants", "exec"), values)  # noqa: S102
    except Exception:  # such as a division by zero
        return {}
    return {name: values[name] for name in stored_names(statement)}


def _is_stated(node: ast.AST, known: Container[str]) -> bool:
    return node.id in known if isinstance(node, ast.Name) else isinstance(node, _OF_VALUES)


def stored_names(statement: ast.stmt) -> set[str]:
    """Return all names that a top-level statement binds, also in the blocks inside it.

    A function or a class binds only its own name.
    """
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    stored = {
        each.id
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    }
    imports = (each for each in ast.walk(statement) if isinstance(each, ast.alias))
    return stored | {each.asname or each.name.partition(".")[0] for each in imports}


def names_of_inputs(tree: ast.Module) -> frozenset[str]:
    r"""Return the names of the constants that determine the inputs: those that `get_inputs` reads.

    >>> text = "n = 8; k = 3\ndef get_inputs(): return [n]\ndef get_init_inputs(): return [k]"
    >>> names_of_inputs(ast.parse(text))
    frozenset({'n'})
    """
    return frozenset(name for name, _ in _places(tree, (_INPUTS,)))


def is_literal_one(name: str) -> bool:
    """Return whether a constant's name stands for a literal 1 that is a size in `get_inputs`."""
    return name.startswith(_ONE)


def with_constants(tree: ast.Module, values: Mapping[str, int]) -> ast.Module:
    """Return a reference's syntax tree with new values for some of its constants.

    Args:
        tree: The file's syntax tree, which is not changed.
        values: New values, under the names that `constants_of` gives the constants.
    """
    # This is deepcopy's memo, by identity: for a node in it, deepcopy uses the value as the copy.
    others: dict[int, Any] = {
        id(node): ast.copy_location(ast.Constant(values[name]), node)
        for name, node in _places(tree)
        if name in values
    }
    body = [
        deepcopy(statement, {**others}) if _has_any(statement, others) else statement
        for statement in tree.body
    ]
    return ast.Module(body, tree.type_ignores)


def _has_any(statement: ast.stmt, places: Container[int]) -> bool:
    """Return whether a statement contains a node whose id is in `places`.

    A class contains no constants, so it is not searched, and `with_constants` does not copy it.
    """
    return _states(statement) and any(id(node) in places for node in ast.walk(statement))


def _states(statement: ast.stmt) -> bool:
    """Return whether a statement can contain constants: an assignment or a function."""
    return isinstance(statement, ast.Assign | ast.AnnAssign | ast.FunctionDef)


def _places(
    tree: ast.Module, functions: Collection[str] = _READERS
) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name and the syntax node of each possible constant that `functions` read."""
    readers = [*_readers(tree, functions)]
    read = _names_read(tree, readers)
    found = set()
    for name, expression in _named(tree):
        # In `height = width = 224`, both names refer to one constant.
        if name.partition("[")[0] in read and expression not in found:
            found.add(expression)
            yield name, expression
    for reader in readers:
        for node in ast.walk(reader):
            # Equal literals are one constant.
            if (
                isinstance(node, ast.Constant)
                and type(node.value) is int
                and node.value >= _LEAST_SIZE
            ):
                yield f"n{node.value}", node
        if reader.name == _INPUTS:
            yield from _ones(reader)


def _ones(reader: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and node of each literal 1 that is a size of a tensor, such as a batch of 1.

    A 1 in the last dimension is left out, because it makes a column vector, which a product of a
    matrix and a vector needs.
    """
    for node in ast.walk(reader):
        if isinstance(node, ast.Call):
            known = takewhile(lambda size: not isinstance(size, ast.Starred), _sizes_in(node)[:-1])
            for dimension, size in enumerate(known):
                if isinstance(size, ast.Constant) and type(size.value) is int and size.value == 1:
                    yield f"{_ONE}{dimension}]", size


def _sizes_in(call: ast.Call) -> Sequence[ast.expr]:
    """Return the size arguments of a call that makes a tensor; nothing for any other call."""
    named = [each.value for each in call.keywords if each.arg == "size"]
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    sequences = [each for each in (*named, *call.args) if isinstance(each, ast.Tuple | ast.List)]
    if sequences and (named or function in _OF_SIZES or function == "randint"):
        return sequences[0].elts
    return call.args if function in _OF_SIZES else ()


def _readers(tree: ast.Module, functions: Collection[str]) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name in functions:
            yield statement


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that the file's top level assigns, with the assigned expression.

    For a tuple or list, each element is yielded by itself, as `name[0]`, `name[1]`.
    """
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=value) if all(
                isinstance(each, ast.Name) for each in targets
            ):
                # height = width = 224
                given = [each.id for each in targets if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                given = [name]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                # height, width = 224, 224
                for each, value in zip(names, values, strict=False):
                    if isinstance(each, ast.Name):
                        yield each.id, value
                continue
            case _:
                continue
        for name in given:
            if isinstance(value, ast.Tuple | ast.List):
                for place, element in enumerate(value.elts):
                    yield f"{name}[{place}]", element
            else:
                yield name, value


def _integer(node: ast.expr) -> int | None:
    """Return the value of an integer literal or of arithmetic on integer literals; else None."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _integer(operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _integer(left), _integer(right)
            return None if a is None or b is None else _calculated(op, a, b)
        case _:
            return None


def _calculated(op: ast.operator, a: int, b: int) -> int | None:
    match op:
        case ast.Mult():
            return a * b
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.FloorDiv() if b:
            return a // b
        case ast.LShift() if 0 <= b < 64:
            return a << b
        case ast.Pow() if 0 <= b < 64 and abs(a) < 1 << 10:
            return int(a**b)
        case _:
            return None


def _names_read(tree: ast.Module, readers: Sequence[ast.FunctionDef]) -> set[str]:
    """Return the names that `readers` read, and the top-level names that these derive from."""
    read = {name for reader in readers for name in _loaded(reader)}
    # `heads = width // 64` means that `width` is read too. Derivations can be chained, so this
    # repeats until no name is added.
    derived: dict[str, set[str]] = {}
    for name, node in _named(tree):
        derived.setdefault(name.partition("[")[0], set()).update(_loaded(node))
    while more := {n for name in read for n in derived.get(name, set())} - read:
        read |= more
    return read


def _loaded(node: ast.AST) -> set[str]:
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
