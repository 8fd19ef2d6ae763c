"""The calls that a reference makes of torch's operators: seen, and one of them changed."""

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

# What moves numbers, or makes them of nothing: a result without it is of another shape, or none.
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
# A diagnosis is given up sooner than a person gives up waiting for it.
_MOST_CALLS = 48

Call = Callable[..., Tensor]
Make = Callable[[Call, Mapping[str, Any]], Tensor]


@dataclass(frozen=True)
class Called:
    """A call that a reference makes, or all that it makes of a function in one line.

    Attributes:
        function: The operator, or the function of `torch.nn.functional`.
        number: Which of the calls of that function it is, from 0; None for all of that line, of
            which what follows is the first one's.
        where: The line in the reference's file, in words; empty where that is not known.
        given: Names of the arguments by place, in order.
        arguments: All by name, those left to defaults too.
        result: What it gave.
    """

    function: Any
    number: int | None
    where: str
    given: tuple[str, ...]
    arguments: Mapping[str, Any]
    result: Tensor

    @property
    def name(self) -> str:
        """As people call it: `add` of all of `add`, `add_` and `__add__`."""
        return str(self.function.__name__).strip("_")

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Its operands."""
        return {name: v for name, v in self.arguments.items() if isinstance(v, Tensor)}


@dataclass(frozen=True, eq=False)
class Change:
    """A call, or several, made otherwise.

    Attributes:
        name: Of the mistake.
        advice: What the kernel does, in one sentence.
        called: The call.
        make: Gives the other result, of the function and the arguments by name.
    """

    name: str
    advice: str
    called: Called
    make: Make


@lru_cache(maxsize=64)
def changed(problem: Problem, change: Change) -> Problem:
    """Give the reference with that change; the same one each time, since it is traced but once."""
    return _within(problem, lambda: _Changing(change, str(problem.path)))


def calls_of(problem: Problem, run: Callable[[Problem], object]) -> Sequence[Called]:
    """List the calls that forward makes, in their order, but those that only move numbers.

    Before them come all that are made in one line, as of layers in a loop, of which other sizes may
    have more: one kernel stands for all. Those of one line are listed one by one where they are
    several.

    Args:
        problem: The reference.
        run: Calls a reference on some input.
    """
    seen = _Recording(str(problem.path))
    run(_within(problem, lambda: seen))
    lines: dict[tuple[Any, str], list[Called]] = {}
    for each in seen.calls:
        lines.setdefault((each.function, each.where), []).append(each)
    whole = [replace(calls[0], number=None) for (_, where), calls in lines.items() if where]
    single = [
        each for each in seen.calls if not each.where or len(lines[each.function, each.where]) > 1
    ]
    return [*whole[:_MOST_CALLS], *single[:_MOST_CALLS]]


def _within(problem: Problem, mode: Callable[[], TorchFunctionMode]) -> Problem:
    """The reference with a forward that runs in a mode."""
    model = problem.model

    def forward(self: nn.Module, *given: Any) -> Any:
        with mode():
            return model.forward(self, *given)

    its = {"forward": forward, "__module__": model.__module__}
    return replace(problem, model=type(model.__name__, (model,), its))


class _Counting(TorchFunctionMode):
    """Counts the calls of each function while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Any, int] = {}

    def _number(self, function: Any) -> int:
        number = self._counts.get(function, 0)
        self._counts[function] = number + 1
        return number


class _Changing(_Counting):
    def __init__(self, change: Change, path: str) -> None:
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
            return _line_in(self._path) == called.where
        return number == called.number


class _Recording(_Counting):
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
    """Call it; what it takes by place alone stays there."""
    rest = {name: value for name, value in arguments.items() if name not in given}
    return function(*(arguments[name] for name in given), **rest)


def _line_in(path: str) -> str:
    """The line of a file that is being run, in words."""
    frame = sys._getframe()
    while frame.f_code.co_filename != path:
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f" in line {frame.f_lineno} of the reference"


@lru_cache(maxsize=256)
def signature(function: Any) -> Mapping[str, Any]:
    """Names of parameters, in order, with their defaults; torch has them for its own tests."""
    try:
        parameters = inspect.signature(get_testing_overrides().get(function, function)).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: None if each.default is each.empty else each.default
        for name, each in parameters.items()
    }
