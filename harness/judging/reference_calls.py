"""Calls of torch's functions in a reference: recording them, and changing one of them.

A `TorchFunctionMode` sees each call while forward runs, so the reference's code stays unchanged.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, get_testing_overrides

from harness.problems.problem import Problem

# Functions that move numbers, or create tensors. A result without such a call has another shape, or
# does not exist, so these calls are not changed.
_MOVING = frozenset(
    {
        *("view", "reshape", "permute", "transpose", "contiguous", "clone", "detach", "expand"),
        *("unsqueeze", "squeeze", "flatten", "to", "float", "double", "type_as", "chunk", "split"),
        *("empty_like", "zeros_like", "ones_like", "full_like", "new_zeros", "new_empty"),
        *("new_full", "new_ones", "expand_as", "broadcast_to", "movedim", "swapaxes", "t"),
        *("__get__", "__getitem__", "__setitem__", "requires_grad_", "fill_", "zero_", "copy_"),
        "dropout",
    }
)
# The most calls that are changed, so that a diagnosis does not take too long.
_MOST_CALLS = 48
_EVERYWHERE = " in every line of the reference"

Call = Callable[..., Tensor]
Make = Callable[[Call, Mapping[str, Any]], Tensor]


@dataclass(frozen=True)
class Called:
    """One call of a torch function in a reference, or several calls of that function.

    Several calls are all calls of the function in one line of the reference, or in all lines.

    Attributes:
        function: The operator, or the function of `torch.nn.functional`.
        number: Index of the call among the calls of that function, from 0. None for several calls;
            the fields below then describe the first call.
        where: The line in the reference's file, or all lines, in words; empty if unknown.
        given: Names of the positional arguments, in order.
        arguments: All arguments by name, with defaults.
        result: The result of the call.
    """

    function: Any
    number: int | None
    where: str
    given: tuple[str, ...]
    arguments: Mapping[str, Any]
    result: Tensor

    @property
    def name(self) -> str:
        """The usual name of the function: `add` for `add`, `add_` and `__add__`."""
        return str(self.function.__name__).strip("_")

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The operands, by name."""
        return {name: v for name, v in self.arguments.items() if isinstance(v, Tensor)}


@dataclass(frozen=True, eq=False)
class ChangedCall:
    """A change of one call, or of all calls of a function in one line or in all lines.

    Attributes:
        name: Name of the mistake.
        advice: What the kernel does, in one sentence.
        called: The call, or the calls, whose result changes.
        make: Function that returns the changed result. Its arguments are the function to call, and
            the arguments of the call by name.
    """

    name: str
    advice: str
    called: Called
    make: Make


@lru_cache(maxsize=64)
def with_change(problem: Problem, change: ChangedCall) -> Problem:
    """Return a reference whose forward runs with a changed call.

    The result is cached, since each new reference would be traced again.
    """
    return _with_mode(problem, lambda: _Changing(change, str(problem.path)))


def calls_of(problem: Problem, run: Callable[[Problem], object]) -> Sequence[Called]:
    """List the calls of torch's functions in forward, except functions that only move numbers.

    The list has three parts:

    - One entry for all calls of a function in one line. Layers in a loop make several calls in a
      line. Their number may depend on the sizes, and one kernel computes them all.
    - If a line makes several calls, one entry for each call.
    - One entry for all calls of a function in all lines, since a submission may have one function
      for all layers of a kind.

    Args:
        problem: The reference.
        run: Function that calls a reference on some input.
    """
    seen = _Recording(str(problem.path))
    run(_with_mode(problem, lambda: seen))
    lines: dict[tuple[Any, str], list[Called]] = {}
    for each in seen.calls:
        lines.setdefault((each.function, each.where), []).append(each)
    whole = [replace(calls[0], number=None) for (_, where), calls in lines.items() if where]
    single = [
        each for each in seen.calls if not each.where or len(lines[each.function, each.where]) > 1
    ]
    functions = {each.function: each for each in reversed(whole)}
    everywhere = [
        replace(first, where=_EVERYWHERE)
        for function, first in functions.items()
        if sum(each.function is function for each in whole) > 1
    ]
    return [*whole[:_MOST_CALLS], *single[:_MOST_CALLS], *everywhere]


def _with_mode(problem: Problem, mode: Callable[[], TorchFunctionMode]) -> Problem:
    """Return a reference whose forward runs inside a `TorchFunctionMode`."""
    model = problem.model

    def forward(self: nn.Module, *given: Any) -> Any:
        with mode():
            return model.forward(self, *given)

    its = {"forward": forward, "__module__": model.__module__}
    return replace(problem, model=type(model.__name__, (model,), its))


class _Counting(TorchFunctionMode):
    """A torch function mode that counts the calls of each function."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Any, int] = {}

    def _number(self, function: Any) -> int:
        number = self._counts.get(function, 0)
        self._counts[function] = number + 1
        return number


class _Changing(_Counting):
    """A torch function mode that changes the results of the calls that a `ChangedCall` names."""

    def __init__(self, change: ChangedCall, path: str) -> None:
        super().__init__()
        self._change = change
        self._path = path

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        called = self._change.called
        if func is not called.function or not self._is_meant(called):
            return func(*args, **kwargs)
        names = signature(func)
        return self._change.make(
            partial(by_name, func, called.given),
            {**dict(zip(names, args, strict=False)), **kwargs},
        )

    def _is_meant(self, called: Called) -> bool:
        number = self._number(called.function)
        if called.number is None:
            return called.where in (_EVERYWHERE, _line_in(self._path))
        return number == called.number


class _Recording(_Counting):
    """A torch function mode that records the calls that return a tensor."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.calls: list[Called] = []
        self._path = path

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        number = self._number(func)
        names = signature(func)
        is_known = len(args) <= len(names) and func.__name__ not in _MOVING
        if is_known and isinstance(result, Tensor):
            given = tuple(names)[: len(args)]
            arguments = {**names, **dict(zip(given, args, strict=True)), **kwargs}
            where = _line_in(self._path)
            self.calls.append(Called(func, number, where, given, arguments, result))
        return result


def by_name(function: Call, given: Sequence[str], arguments: Mapping[str, Any]) -> Tensor:
    """Call a function with arguments by name; those in `given` are passed by position."""
    rest = {name: value for name, value in arguments.items() if name not in given}
    return function(*(arguments[name] for name in given), **rest)


def _line_in(path: str) -> str:
    """Return which line of a file is being executed, as text; empty if none is."""
    frame = sys._getframe()
    while frame.f_code.co_filename != path:
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f" in line {frame.f_lineno} of the reference"


@lru_cache(maxsize=256)
def signature(function: Any) -> Mapping[str, Any]:
    """Return the parameters of a function in order, with their defaults; empty if unknown.

    A builtin function has no signature of its own. For many of torch's builtin functions, the
    signature is taken from a substitute in `torch.overrides`.
    """
    try:
        parameters = inspect.signature(get_testing_overrides().get(function, function)).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: None if each.default is each.empty else each.default
        for name, each in parameters.items()
    }
