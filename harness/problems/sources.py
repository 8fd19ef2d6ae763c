"""Other numbers for a reference's `get_inputs`, which keeps what it makes of them.

The author says in `get_inputs` what is true of an input: that a matrix is triangular, rows are
normalised, labels are classes. So what is varied is not the input but the random numbers that it is
made from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from torch import Generator, Tensor

from harness.problems.draws import drawn, touch
from harness.problems.runs import Distribution
from harness.problems.watching import Watching

_DRAWING = frozenset({"rand", "randn", "rand_like", "randn_like", "uniform_", "normal_"})

# Whose other numbers only tell something beside an input that stays as it is.
_OF_FIRST: frozenset[Distribution] = frozenset({"impulse"})


def inputs_from(
    make_inputs: Callable[[], Sequence[Tensor]], distribution: Distribution, generator: Generator
) -> tuple[Tensor, ...]:
    """What a reference makes of other floating-point numbers than those that it draws.

    Integers and permutations are left as they are: they choose classes and places, which the
    reference indexes with.

    Args:
        make_inputs: The reference's, seeded.
        distribution: What is drawn instead; `own` for nothing.
        generator: Where numbers come from.
    """

    def draw_again(values: Tensor, is_first: bool) -> None:
        if is_first or distribution not in _OF_FIRST:
            values.copy_(drawn(distribution, tuple(values.shape), generator))

    with _Drawing(draw_again) if distribution != "own" else nullcontext():
        return _contiguous(make_inputs())


def touched_from(
    make_inputs: Callable[[], Sequence[Tensor]], generator: Generator
) -> tuple[Tensor, ...]:
    """What a reference makes of its own numbers, with another one at a place of each tensor."""
    with _Drawing(lambda values, _: touch(values, generator)):
        return _contiguous(make_inputs())


def _contiguous(made: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(each.detach().contiguous() for each in made)


class _Drawing(Watching):
    """Changes what is drawn while it is entered, in one thread.

    Args:
        change: Changes the numbers of a tensor in place; told as well is whether it is the first.
    """

    def __init__(self, change: Callable[[Tensor, bool], None]) -> None:
        super().__init__()
        self._change = change
        self._is_first = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in _DRAWING:
            self._change(result, self._is_first)
            self._is_first = False
        return result
