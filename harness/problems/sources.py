"""Inputs that a reference's `get_inputs` makes while the harness replaces its random numbers.

The author's `get_inputs` states the structure of an input: a matrix is triangular, rows are
normalised, labels are classes. So the harness replaces the random numbers that the inputs are made
from, not the inputs themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from torch import Generator, Tensor

from harness.problems.draws import drawn, touch, with_zeros
from harness.problems.runs import Distribution
from harness.problems.watching import Watching

_DRAWING = frozenset({"rand", "randn", "rand_like", "randn_like", "uniform_", "normal_"})

# Distributions for the first input only: an impulse is informative only if the other inputs keep
# their values.
_OF_FIRST: frozenset[Distribution] = frozenset({"impulse"})
# Distributions with zeros in some of the inputs. A divergence, for example, takes them in one of
# its two operands alone.
_WITH_ZEROS: Mapping[Distribution, slice] = {
    "zeros": slice(None),
    "first zeros": slice(1),
    "later zeros": slice(1, None),
}


def inputs_from(
    make_inputs: Callable[[], Sequence[Tensor]],
    distribution: Distribution,
    generator: Generator,
    touching: Generator | None = None,
) -> tuple[Tensor, ...]:
    """Return a reference's inputs, made from random floating-point numbers of another distribution.

    Random integers and permutations stay, because the reference uses them as classes and positions.

    Args:
        make_inputs: The reference's `get_inputs`, with a fixed seed.
        distribution: The distribution to draw from instead; `own` changes nothing.
        generator: The random generator.
        touching: Random generator that replaces one number in each tensor of random numbers; None
            to replace none.
    """

    def draw_again(values: Tensor, is_first: bool) -> None:
        if distribution != "own" and (is_first or distribution not in _OF_FIRST):
            values.copy_(drawn(distribution, tuple(values.shape), generator))
        if touching:
            touch(values, touching)

    with _Drawing(draw_again) if touching or distribution != "own" else nullcontext():
        made = _contiguous(make_inputs())
    zeros = _WITH_ZEROS.get(distribution, slice(0))
    chosen = {id(each) for each in made[zeros] if each.is_floating_point()}
    return tuple(with_zeros(each, generator) if id(each) in chosen else each for each in made)


def _contiguous(made: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(each.detach().contiguous() for each in made)


class _Drawing(Watching):
    """A dispatch mode that changes random numbers as soon as torch has drawn them.

    Only the calls of the current thread are affected.

    Args:
        change: Changes a tensor of random numbers in place. Its second argument is True for the
            first tensor that is drawn.
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
