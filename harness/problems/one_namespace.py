"""Constants of a reference that a submission's file reads without a definition of its own.

KernelBench executes reference and submission in one namespace. So a submission may read a name such
as `batch_size` that only the reference defines. The harness gives it the value that the reference's
text states. The reference's functions and classes are not shared.
"""

from __future__ import annotations

import ast
import contextlib
import symtable
import warnings
from collections.abc import Iterator
from functools import lru_cache

from harness.problems.configuration import Configuration
from harness.problems.constants import stored_names, values_of, with_constants
from harness.problems.problem import Problem, ProblemError


def shared_constants(reference: ast.Module, submission: str) -> dict[str, str]:
    """Return the reference's constants that a submission reads but does not define.

    The result has each constant's value as a Python literal, by name.

    Args:
        reference: The reference's syntax tree, with the constants of the configuration.
        submission: The submission's text.
    """
    names = _undefined_names(submission)
    values = values_of(reference) if names else {}
    return {n: repr(values[n]) for n in sorted(names & values.keys()) if _is_literal(values[n])}


def names_not_shared(reference: ast.Module, submission: str) -> list[str]:
    """Return the names that a submission reads, and that only the reference's code defines.

    These are the reference's functions, classes and imports, which a submission does not get.

    Args:
        reference: The reference's syntax tree.
        submission: The submission's text.
    """
    names = _undefined_names(submission)
    defined = set().union(*map(stored_names, reference.body)) if names else set()
    return sorted((names & defined) - shared_constants(reference, submission).keys())


def shared_in(problem: Problem, configuration: Configuration, submission: str) -> dict[str, str]:
    """Return the reference's constants that a submission reads but does not define.

    The result has each constant's value in the configuration as a Python literal, by name.

    Args:
        problem: The reference.
        configuration: The configuration.
        submission: The submission's text.
    """
    shared = shared_constants(problem.tree, submission)
    if not shared:
        return {}
    constants = configuration.constants or _constants_of(problem, configuration)
    return shared_constants(with_constants(problem.tree, constants), submission)


def _constants_of(problem: Problem, configuration: Configuration) -> dict[str, int]:
    """Infer the reference's constants from the arguments and input shapes of a configuration.

    A constant's value is read from an argument or an input size that equals the constant and
    changes with it.
    """
    own, now = _sizes(problem), _sizes(configuration)
    found = {}
    for name, value in problem.constants.items():
        # Multiples stay multiples, as groups require of channels.
        other = 2 * value or 1
        with contextlib.suppress(ProblemError):
            moved = _sizes(problem.at({name: other}))
            places = [p for p in own if own[p] == value and moved.get(p) == other and p in now]
            if places:
                found[name] = now[places[0]]
    return found


def _sizes(of: Problem | Configuration) -> dict[object, int]:
    """Return the integer arguments by name, and the input sizes by index of input and dimension."""
    sizes: dict[object, int] = {
        (i, d): size for i, shape in enumerate(of.input_shapes) for d, size in enumerate(shape)
    }
    return {n: v for n, v in of.arguments.items() if type(v) is int} | sizes


def _is_literal(value: object) -> bool:
    """Return whether a value can be written as a literal and read back; an infinity cannot."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except ValueError:
        return False


@lru_cache(maxsize=64)
def _undefined_names(text: str) -> frozenset[str]:
    """Return the global names that a file reads and that its top level does not always define."""
    text = text.removeprefix("\ufeff")
    try:
        with warnings.catch_warnings():
            # CUDA source in a plain string often holds escapes that Python warns about.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            read = frozenset(_names_read(symtable.symtable(text, "submission", "exec")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return read.difference(*(_defined(statement) for statement in tree.body))


def _names_read(scope: symtable.SymbolTable) -> Iterator[str]:
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name()
    for child in scope.get_children():
        yield from _names_read(child)


def _defined(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement always defines and does not read."""
    if isinstance(statement, ast.If | ast.Try | ast.For | ast.While):
        return set()
    read = {
        each.id
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    return stored_names(statement) - read
