"""Diagnosis of wrong outputs of a reference without known mistakes.

The search tries mistakes that are possible in any reference. Some change a call of one operator.
Others move, scale, copy or shorten an operand or the output. The reference itself computes the
output of each mistake. A mistake is named only if it gives every wrong output. If no mistake does,
the diagnosis says at most where the wrong elements lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import torch
from torch import Tensor

from harness.judging.compare import allowed_error
from harness.judging.diagnose import Diagnosis
from harness.judging.oracle import CLASSES, expected
from harness.judging.other_calls import changes, shortened
from harness.judging.picture import WrongOutput
from harness.judging.reference_calls import ChangedCall, calls_of, with_change
from harness.judging.resemblance import factor_of, where_wrong_along
from harness.problems.bounds import Expected
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem

# Sizes of blocks and of loop steps. A typical mistake forgets the rest behind the last whole one.
_TILES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
# The fewest wrong outputs, and the fewest wrong numbers in all of them. What fewer share may be
# chance.
_ENOUGH_CASES = 3
_ENOUGH_NUMBERS = 8
# The most numbers of a call. A diagnosis with larger calls takes too long.
_MOST_NUMBERS = 1 << 18
# The fewest dimensions of a convolution's weights.
_OF_TAPS = 3
# A share of the largest number. A result that is farther off is another one, whatever rounding
# does.
_ROUGH = 0.01
_TF32, _LOOSEST = CLASSES[1], CLASSES[-1]


Made = tuple[Tensor, Tensor]
"""The output of a mistake, and how far rounding may lead from it; both float64."""


class ComputeReference(Protocol):
    """A way to compute the reference; it raises whatever the reference raises."""

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        change: ChangedCall | None = None,
    ) -> Made:
        """Return the reference's output and its tolerance; `change` alters a call in forward."""


@dataclass(frozen=True)
class Seen:
    """A submission's wrong output, with the reference and the case.

    Attributes:
        problem: The reference, with the case's values for the constants in its file.
        case: The case in which the output occurred.
        wrong: The output, with the weights and inputs of the call.
    """

    problem: Problem
    case: Case
    wrong: WrongOutput

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the call."""
        return self.wrong.values.inputs

    @property
    def size(self) -> int:
        """The number of elements in inputs and output together."""
        return self.wrong.actual.numel() + sum(x.numel() for x in self.inputs)

    @cached_property
    def actual(self) -> Tensor:
        """The submission's output in float64, on the CPU."""
        return self.wrong.actual.cpu().double()

    @cached_property
    def right(self) -> Expected:
        """The oracle's output, with error bounds."""
        return expected(self.problem, self.case, self.wrong.values.weights, self.inputs)

    @cached_property
    def allowed(self) -> Tensor:
        """The absolute error of each element that the loosest precision class allows."""
        return allowed_error(self.right, _LOOSEST)

    @cached_property
    def _instance(self) -> ModelInstance:
        return ModelInstance(self.problem, self.case)

    def values(self, problem: Problem) -> Tensor:
        """Return another reference's output for the weights and inputs of this call."""
        return ModelInstance(problem, self.case)(self.wrong.values.weights, self.inputs)

    def roughly(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        change: ChangedCall | None = None,
    ) -> Made:
        """Return the reference's output for other weights and inputs, and a wide tolerance.

        The tolerance exceeds any error of rounding. It is fast to compute, because it needs no
        error bound of the changed output.
        """
        instance = self._instance
        if change:
            instance = ModelInstance(with_change(self.problem, change), self.case)
        value = instance(weights, inputs).double()
        allowed = self.allowed.max() + _ROUGH * value.abs().max()
        return value, allowed.expand(value.shape)

    def exactly(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        change: ChangedCall | None = None,
    ) -> Made:
        """Return what `roughly` returns, with the error bound as tolerance; this is much slower."""
        problem = with_change(self.problem, change) if change else self.problem
        return _made(expected(problem, self.case, weights, inputs))


@dataclass(frozen=True)
class _Guess:
    """A mistake that a kernel may make, with a way to compute the output that it gives.

    Attributes:
        name: Short name of the mistake.
        advice: What the kernel does and where to look, in one sentence.
        make: Function that returns the output of the mistake and a tolerance, or None if the
            mistake is not possible. Its arguments are the wrong output with its call (`Seen`), and
            the function that computes the reference.
    """

    name: str
    advice: str
    make: Callable[[Seen, ComputeReference], Made | None]


def guess(seen: Sequence[Seen]) -> Diagnosis | None:
    """Return a diagnosis that explains all given wrong outputs, or None.

    Args:
        seen: Wrong outputs of the right shape, of one problem.
    """
    small = [each for each in seen if each.size <= _MOST_NUMBERS]
    if not small:
        return None
    # A small output refutes a wrong guess in the least time.
    small.sort(key=lambda each: each.size)
    if sum(map(_count_wrong, small)) < _ENOUGH_NUMBERS:
        return None
    # Error bounds take long. All guesses are compared with a wide tolerance first, and only those
    # that fit in every output are compared with their own bounds.
    rough = [
        each
        for each in _guesses(small[0])
        if all(_explains(each, one, one.roughly) for one in small)
    ]
    fitting = [each for each in rough if all(_explains(each, one, one.exactly) for one in small)]
    if fitting:
        first, *others = fitting
        names = tuple(dict.fromkeys(other.name for other in others if other.name != first.name))
        return Diagnosis(first.name, first.advice, alternatives=names)
    return _scaled(small) or _moved(small) or _in_one_place(small)


def _count_wrong(seen: Seen) -> int:
    return int(_wrong(seen).sum())


def _wrong(seen: Seen) -> Tensor:
    return (seen.actual - seen.right.value.double()).abs() > seen.allowed


def _explains(each: _Guess, seen: Seen, compute: ComputeReference) -> bool:
    """Return whether a mistake gives the submission's output, within the tolerance of `compute`."""
    try:
        made = each.make(seen, compute)
    except Exception:  # the reference does not accept these values, so no kernel computed them
        return False
    return made is not None and _is_near(seen.actual, *made)


def _is_near(actual: Tensor, value: Tensor, bound: Tensor) -> bool:
    return actual.shape == value.shape and bool(((actual - value).abs() <= bound).all())


def _made(result: Expected) -> Made:
    return result.value.double(), allowed_error(result, _TF32)


def _guesses(first: Seen) -> Iterator[_Guess]:
    """Yield all mistakes to try; `first` shows the operands' names and numbers of dimensions.

    The first mistake that fits gives the diagnosis its name, so the order matters.
    """
    names = first.problem.input_names
    calls = calls_of(first.problem, first.values)
    for place, name in enumerate(names):
        yield _Guess(
            "input copied",
            f"The output is an unchanged copy of {name}; check that the kernel computes "
            "anything from it.",
            lambda seen, _, place=place: _copied(seen, place),  # type: ignore[misc]
        )
    yield from map(_called_otherwise, changes(calls))
    yield from _of_output(first)
    yield from _of_weights(first)
    # Mistakes in a whole operand come before those in a part of one.
    yield from _of_operands(names)
    yield from _of_chunks(first)
    for place, name in enumerate(names):
        for dim in range(first.inputs[place].dim()):
            yield from _of_input(place, name, dim)
    yield from map(_called_otherwise, shortened(calls))


def _called_otherwise(change: ChangedCall) -> _Guess:
    return _Guess(
        change.name,
        change.advice,
        lambda seen, compute: compute(seen.wrong.values.weights, seen.inputs, change),
    )


def _of_weights(first: Seen) -> Iterator[_Guess]:
    """Yield mistakes in each weight: left out, flipped, or without the last index."""
    for name, weight in first.wrong.values.weights.items():
        yield _Guess(
            "weight left out",
            f"The output equals the result with zeros in place of {name}; look at where "
            f"{name} is added or multiplied.",
            lambda seen, compute, name=name: _with_weight(  # type: ignore[misc]
                seen, compute, name, torch.zeros_like
            ),
        )
        if weight.dim() < _OF_TAPS:
            continue
        yield _Guess(
            "weight flipped",
            f"The output equals the result with {name} flipped along all dimensions from "
            "2 on; look at the order of the taps.",
            lambda seen, compute, name=name: _with_weight(  # type: ignore[misc]
                seen, compute, name, _flipped
            ),
        )
        for dim in range(weight.dim()):
            yield _Guess(
                "part of a weight missing",
                f"The output equals the result without the last index of {name} along "
                f"dimension {dim}; look at where the loop over it ends.",
                lambda seen, compute, name=name, dim=dim: _with_weight(  # type: ignore[misc]
                    seen, compute, name, partial(_without_last, dim=dim)
                ),
            )


def _with_weight(
    seen: Seen, compute: ComputeReference, name: str, change: Callable[[Tensor], Tensor]
) -> Made:
    weights = seen.wrong.values.weights
    return compute({**weights, name: change(weights[name])}, seen.inputs)


def _with_input(seen: Seen, compute: ComputeReference, place: int, value: Tensor) -> Made:
    inputs = [*seen.inputs]
    inputs[place] = value
    return compute(seen.wrong.values.weights, inputs)


def _flipped(weight: Tensor) -> Tensor:
    return weight.flip(tuple(range(2, weight.dim())))


def _without_last(weight: Tensor, dim: int) -> Tensor:
    changed = weight.clone()
    changed.select(dim, -1).zero_()
    return changed


def _copied(seen: Seen, place: int) -> Made:
    copy = seen.inputs[place].double()
    return copy, torch.zeros_like(copy)


def _of_output(first: Seen) -> Iterator[_Guess]:
    """Yield mistakes in the output: transposed, clamped, absolute, shifted, reversed, repeated."""
    dims = first.actual.dim()
    if dims > 1:
        yield _Guess(
            "output transposed",
            "The output is the right one with its last two dimensions swapped; look at "
            "the index that it is written to.",
            lambda seen, _: _turned(seen, lambda values: values.mT),
        )
    yield _Guess(
        "negative results lost",
        "The output is the right one with 0 in place of negative values; look at the "
        "initial value of the maximum, or of the sum.",
        lambda seen, _: _turned(seen, lambda values: values.clamp_min(0.0)),
    )
    yield _Guess(
        "sign lost",
        "The output is the absolute value of the right one.",
        lambda seen, _: _turned(seen, torch.abs),
    )
    for dim in range(dims):
        where = f"dimension {dim} of the output"
        for step, words in ((1, "one place too late"), (-1, "one place too early")):
            yield _Guess(
                "output shifted",
                f"Along {where} every value stands {words}, with 0 at the free end; look "
                "at the index there.",
                lambda seen, _, dim=dim, step=step: _turned(  # type: ignore[misc]
                    seen, lambda values: _shifted(values, dim, step)
                ),
            )
        yield _Guess(
            "output reversed",
            f"Along {where} the values are in reverse order; look at the index there.",
            lambda seen, _, dim=dim: _turned(  # type: ignore[misc]
                seen, lambda values: values.flip(dim)
            ),
        )
        yield _Guess(
            "index 0 used for all",
            f"Every index along {where} has the values of index 0; look at how the index "
            "there reaches the operands.",
            lambda seen, _, dim=dim: _turned(  # type: ignore[misc]
                seen, lambda values: _first_for_all(values, dim)
            ),
        )


def _turned(seen: Seen, turn: Callable[[Tensor], Tensor]) -> Made:
    value, bound = _made(seen.right)
    return turn(value), turn(bound.expand(value.shape))


def _shifted(values: Tensor, dim: int, step: int) -> Tensor:
    shifted = values.roll(step, dim)
    shifted.select(dim, 0 if step > 0 else -1).zero_()
    return shifted


def _of_chunks(first: Seen) -> Iterator[_Guess]:
    """Yield mistakes that compute each chunk of a dimension as if there were no other chunk."""
    if any(each.shape != first.actual.shape for each in first.inputs):
        return
    for dim in range(first.actual.dim()):
        for tile in _TILES:
            yield _Guess(
                "chunks not joined",
                f"Each chunk of {tile} along dimension {dim} is computed on its own; look "
                "at how the result of one chunk reaches the others.",
                lambda seen, compute, dim=dim, tile=tile: _in_chunks(seen, compute, dim, tile),  # type: ignore[misc]
            )


def _in_chunks(seen: Seen, compute: ComputeReference, dim: int, tile: int) -> Made | None:
    """Compute each chunk of the inputs alone and concatenate the outputs; None for one chunk."""
    if seen.actual.shape[dim] <= tile:
        return None
    size, weights = seen.actual.shape[dim], seen.wrong.values.weights
    made = [
        compute(weights, [x.narrow(dim, i, min(tile, size - i)).contiguous() for x in seen.inputs])
        for i in range(0, size, tile)
    ]
    values, bounds = zip(*made, strict=True)
    return torch.cat(values, dim), torch.cat(bounds, dim)


def _of_input(place: int, name: str, dim: int) -> Iterator[_Guess]:
    """Yield mistakes that replace a part of an input by zeros, or by copies of one slice."""
    where = f"{name} along dimension {dim}"
    parts: list[tuple[str, str, Callable[[int], tuple[int, int]]]] = [
        ("the last term missing", "the last index", lambda size: (size - 1, size)),
        ("the first term missing", "the first index", lambda _: (0, 1)),
    ]
    for tile in _TILES:
        parts.append(
            (
                "the incomplete block missing",
                f"the part after the last whole block of {tile}",
                lambda size, tile=tile: (size // tile * tile, size),  # type: ignore[misc]
            )
        )
    for tile in _TILES:
        parts.append(
            (
                "the first block alone",
                f"the part after the first {tile}",
                lambda size, tile=tile: (min(tile, size), size),  # type: ignore[misc]
            )
        )
    yield _Guess(
        "index 0 used for all",
        f"The output equals the result with index 0 of {where} in place of every index; "
        "look at the index.",
        lambda seen, compute: _with_input(
            seen, compute, place, _first_for_all(seen.inputs[place], dim)
        ),
    )
    for title, words, part in parts:
        for again in (False, True):
            yield _Guess(
                title,
                f"The output equals the result without {words} of {where}; look at where "
                "the loop over it begins and ends, and at how its parts are combined.",
                lambda seen, compute, part=part, again=again: _without(  # type: ignore[misc]
                    seen, compute, place, dim, part(seen.inputs[place].shape[dim]), again=again
                ),
            )


def _first_for_all(values: Tensor, dim: int) -> Tensor:
    return values.narrow(dim, 0, 1).expand_as(values).contiguous()


def _without(
    seen: Seen,
    compute: ComputeReference,
    place: int,
    dim: int,
    part: tuple[int, int],
    *,
    again: bool,
) -> Made | None:
    """Compute with a part of an input replaced by zeros, or if `again`, by copies of one slice.

    The copied slice is the first one of the input, or the last one if the part is at the beginning.
    """
    start, end = part
    if start >= end:
        return None
    changed = seen.inputs[place].clone()
    kept = changed.narrow(dim, 0 if start else changed.shape[dim] - 1, 1).clone()
    target = changed.narrow(dim, start, end - start)
    target.copy_(kept.expand_as(target)) if again else target.zero_()
    return _with_input(seen, compute, place, changed)


def _of_operands(names: Sequence[str]) -> Iterator[_Guess]:
    """Yield mistakes in whole inputs: transposed, left out, or exchanged."""
    for place, name in enumerate(names):
        yield _Guess(
            "operand transposed",
            f"The output equals the result with the last two dimensions of {name} "
            "swapped; look at the index that it is read from.",
            lambda seen, compute, place=place: _with_input(  # type: ignore[misc]
                seen, compute, place, seen.inputs[place].mT.contiguous()
            ),
        )
        yield _Guess(
            "operand left out",
            f"The output equals the result with zeros in place of {name}; look at where "
            "it is read.",
            lambda seen, compute, place=place: _with_input(  # type: ignore[misc]
                seen, compute, place, torch.zeros_like(seen.inputs[place])
            ),
        )
    if len(names) > 1:
        yield _Guess(
            "operands swapped",
            f"The output equals the result with {names[0]} and {names[1]} swapped.",
            lambda seen, compute: compute(
                seen.wrong.values.weights, (seen.inputs[1], seen.inputs[0], *seen.inputs[2:])
            ),
        )


def _scaled(seen: Sequence[Seen]) -> Diagnosis | None:
    """Return a diagnosis if outputs are scaled by one number, or by a size of an input, or None."""
    if len(seen) < _ENOUGH_CASES:
        return None
    factors = [factor_of([each.actual], [each.right.value.double()]) for each in seen]
    if not all(
        factor is not None and _is_scaled(each, factor)
        for each, factor in zip(seen, factors, strict=True)
    ):
        return None
    told = [factor for factor in factors if factor is not None]
    if max(told) - min(told) <= 2.0**-8 * max(map(abs, told)):
        return Diagnosis(
            "output scaled",
            f"Every output is {told[0]:.4g} times what it should be; look for a wrong "
            "factor, or for terms that are summed more or less than once.",
        )
    for name, sizes in _sizes(seen):
        for words, power in (("multiplied", 1), ("divided", -1)):
            if all(
                abs(factor / size**power - 1.0) <= 2.0**-8
                for factor, size in zip(told, sizes, strict=True)
            ):
                return Diagnosis(
                    "a size as a factor",
                    f"Every output is the right one {words} by {name}; look for a sum in "
                    "place of a mean, or a mean in place of a sum.",
                )
    return None


def _is_scaled(seen: Seen, factor: float) -> bool:
    value, bound = _made(seen.right)
    scaled = factor * value
    # The factor is fitted to rounded outputs, so that the tolerance has to be wider.
    allowed = 2.0 * max(1.0, abs(factor)) * bound + _TF32.roundoff * scaled.abs()
    return bool(((seen.actual - scaled).abs() <= allowed).all())


def _sizes(seen: Sequence[Seen]) -> Iterator[tuple[str, list[int]]]:
    """Yield the sizes that may be a factor: a description, and the size in each output's call."""
    for place, name in enumerate(seen[0].problem.input_names):
        for dim in range(seen[0].inputs[place].dim()):
            sizes = [each.inputs[place].shape[dim] for each in seen]
            if len(set(sizes)) > 1:
                yield f"the size of {name} along dimension {dim}", sizes
        yield (
            f"the number of elements of {name}",
            [each.inputs[place].numel() for each in seen],
        )


def _moved(seen: Sequence[Seen]) -> Diagnosis | None:
    """Return a diagnosis if all elements differ from the right ones by one number, or None.

    The number must be the same in all cases.
    """
    if len(seen) < _ENOUGH_CASES:
        return None
    offsets = [float((each.actual - each.right.value.double()).mean()) for each in seen]
    most = max(map(abs, offsets))
    if not math.isfinite(sum(offsets)) or max(offsets) - min(offsets) > 2.0**-8 * most:
        return None
    for each in seen:
        value, bound = _made(each.right)
        off = (each.actual - value - offsets[0]).abs()
        if not bool((off <= 2.0 * bound + 2.0**-8 * most).all()):
            return None
    return Diagnosis(
        "a number added",
        f"Every output is off by {offsets[0]:.4g}; look at the initial value of the sums, "
        "and at what is added at the end.",
    )


def _in_one_place(seen: Sequence[Seen]) -> Diagnosis | None:
    """Return a diagnosis if all wrong elements lie in one part, common to all outputs, or None."""
    if len(seen) < _ENOUGH_CASES:
        return None
    where = where_wrong_along([_wrong(each) for each in seen])
    if not where:
        return None
    blank = all(bool((each.actual[_wrong(each)] == 0).all()) for each in seen)
    return Diagnosis(
        "elements left at 0" if blank else "wrong in one part",
        f"In every failing case all wrong elements lie {where}; look at how the kernel "
        "divides the output there.",
    )
