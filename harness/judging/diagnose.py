"""Diagnosis of wrong outputs: the name of the mistake behind them.

A known mistake is the diagnosis if it reproduces the submission's output in every wrong run. If
none does, two mistakes at once are tried, and then three. The problem's family (the kind of its
operator) has the list of known mistakes. If nothing fits, the diagnosis describes the outputs: a
factor, or the part in which all wrong elements lie.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from harness.judging.oracle import CLASSES
from harness.judging.resemblance import factor_of, where_wrong, which_part
from harness.problems.bounds import gamma
from harness.problems.mistakes import Computation, Mistake

# So many pairs of mistakes are tried with a third one: those that explain most of so many outputs.
_PROMISING = 16
_PROBES = 2
# A share of the largest sum that is more than the error of TF32.
_FAR = 0.01
# The fewest wrong outputs. What one or two have in common may be chance.
_FEW = 3
# A share of the largest sum that is more than the error of the loosest precision class.
_BEYOND_ROUNDING = 0.05
_ON_ONE_PATH = (
    "This mistake would also show in cases that passed; look at code that only the failing "
    "cases reach."
)
# The fewest numbers that each of several mistakes has to explain.
_ENOUGH = 8


@dataclass(frozen=True)
class WrongRun:
    """A run (one set of weights and inputs) whose output the oracle did not accept.

    Attributes:
        right: The computation of the right output, which mistakes can change.
        actual: The submission's output.
        unwritten: Mask of the elements that nothing wrote. If None, elements that are 0 or not
            finite count as unwritten.
    """

    right: Computation
    actual: Tensor
    unwritten: Tensor | None = None


Made = tuple[Mistake[Any], ...]
"""Mistakes that are made at once, one after the other."""


@dataclass(frozen=True)
class Diagnosis:
    """The explanation of a submission's wrong outputs: a known mistake, or several at once.

    Attributes:
        name: Short name of the mistakes.
        advice: What the kernel does, and where to look.
        alternatives: Names of other mistakes that give the same outputs.
        made: The mistakes; empty if the diagnosis only describes the outputs.
    """

    name: str
    advice: str
    alternatives: tuple[str, ...] = ()
    made: Made = ()


def diagnose(
    runs: Sequence[WrongRun],
    mistakes: Sequence[Mistake[Any]],
    passed: Sequence[Computation] = (),
) -> Diagnosis | None:
    """Name the known mistake, or up to three mistakes, that reproduce all given wrong outputs.

    Args:
        runs: Wrong outputs of the right shape. The more their sizes differ, the fewer mistakes fit
            them all.
        mistakes: The known mistakes. If several fit, the earlier is named first.
        passed: Right computations of cases that passed. A mistake that would show in them is named
            only if no other fits, and the advice says so.

    Returns:
        The mistakes, or else a description of the wrong outputs; None if nothing explains all
        outputs.
    """
    if not runs:
        return None
    unwritten = _unwritten(runs)
    if unwritten is not None:
        return unwritten
    # A small run refutes a wrong guess in the least time.
    runs = sorted(runs, key=lambda run: run.right.work)
    combined = [mistake for mistake in mistakes if not mistake.comes_alone]
    # Single mistakes come before pairs, and pairs before triples: the simplest explanation is the
    # diagnosis, and the large searches only run if it is needed.
    for search, among in ((_single, mistakes), (_pairs, combined), (_triples, combined)):
        fitting = [
            made for made in search(runs, among) if all(_reproduces(made, run) for run in runs)
        ]
        if fitting:
            return _of_fitting(fitting, passed)
    return _scaled(runs) or _off_by_channel(runs) or _in_one_part(runs)


def _of_fitting(fitting: Sequence[Made], passed: Sequence[Computation]) -> Diagnosis:
    """Return the diagnosis by the first candidate that would not change the passed cases.

    A candidate is one mistake, or several at once. If every candidate would change some passed
    case, the first one is the diagnosis, and the advice says so. Further candidates are the
    alternatives.
    """
    hidden = [
        made
        for made in fitting
        if not any(_changes_beyond_rounding(made, right) for right in passed)
    ]
    first, *others = map(_named, hidden or fitting)
    if not hidden:
        first = replace(first, advice=f"{first.advice} {_ON_ONE_PATH}")
    return replace(first, alternatives=tuple(other.name for other in others))


def _changes_beyond_rounding(made: Made, right: Computation) -> bool:
    """Return whether mistakes change a computation by more than any precision class allows."""
    off = (output_of(made, right) - right.output()).abs()
    return bool((off.isnan() | (off > _BEYOND_ROUNDING * right.scale)).any())


def output_of(made: Made, right: Computation) -> Tensor:
    """Return the output of a computation with mistakes; float64, on the CPU."""
    return _changed(made, right).output()


def _changed(made: Made, right: Computation) -> Computation:
    changed: Computation = reduce(lambda changed, mistake: mistake.change(changed), made, right)
    return changed


def _single(_: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    return ((mistake,) for mistake in mistakes)


def _pairs(runs: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    """Yield all pairs of mistakes, if the wrong outputs have enough elements to name two."""
    if _tells_enough(runs, 2):
        yield from itertools.combinations(mistakes, 2)


def _triples(runs: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    """Yield triples: the pairs that explain most of the outputs, each with every other mistake.

    All triples would take too long. A pair of the right triple explains more of an output than most
    other pairs do.
    """
    if not _tells_enough(runs, 3):
        return
    probes = runs[:_PROBES]
    pairs = sorted(
        itertools.combinations(mistakes, 2),
        key=lambda pair: sum(_explained(pair, probe) for probe in probes),
        reverse=True,
    )
    seen = set[frozenset[str]]()
    for pair in pairs[:_PROMISING]:
        for third in mistakes:
            made = tuple(mistake for mistake in mistakes if mistake in (*pair, third))
            names = frozenset(mistake.name for mistake in made)
            if len(made) == len(pair) + 1 and names not in seen:
                seen.add(names)
                yield made


def _tells_enough(runs: Sequence[WrongRun], count: int) -> bool:
    """Return whether the runs have enough outputs and elements to name `count` mistakes at once."""
    return len(runs) >= count and sum(run.actual.numel() for run in runs) >= _ENOUGH * count


def _named(made: Made) -> Diagnosis:
    name = " and ".join(mistake.name for mistake in made)
    return Diagnosis(name, " ".join(mistake.advice for mistake in made), made=made)


def _tolerance(made: Made, right: Computation) -> Tensor:
    """Return the tf32 class's bound for a computation with mistakes.

    The bound needs the sum of the absolute terms of each element, which is the output of
    `absolute()`.
    """
    tf32 = CLASSES[1]
    grown = (1.0 + tf32.roundoff) ** tf32.roundings
    rounding = gamma(torch.tensor(right.terms), tf32.accumulation)
    bound = (grown - 1.0 + rounding * grown) * output_of(made, right.absolute()) + tf32.smallest
    # The bound is NaN where a mistake reads out of bounds. A bound of 0 is enough there, because
    # `_off` is 0 if both sides are NaN.
    return bound.nan_to_num()


def _difference(made: Made, run: WrongRun) -> Tensor:
    return _off(run.actual.cpu(), output_of(made, run.right))


def _agrees(made: Made, run: WrongRun) -> Tensor:
    return _difference(made, run) <= _tolerance(made, run.right)


def _sampled_difference(made: Made, run: WrongRun) -> Tensor:
    """Return the differences between a sample of a run's output and what mistakes give.

    The sample refutes most mistakes in less time than the whole output.
    """
    values, places = _changed(made, run.right).sample()
    return _off(run.actual.cpu().index_select(1, places), values)


def _off(actual: Tensor, values: Tensor) -> Tensor:
    """Return the absolute difference of each element; 0 where both values are NaN."""
    off = (actual.double() - values).abs()
    return off.masked_fill(actual.isnan() & values.isnan(), 0.0)


def _explained(made: Made, run: WrongRun) -> float:
    """Return the approximate share of a run's output elements that mistakes reproduce."""
    return float((_sampled_difference(made, run) <= _FAR * run.right.scale).double().mean())


def _reproduces(made: Made, run: WrongRun) -> bool:
    """Return whether mistakes give a run's output, within the tf32 class's bound."""
    # The tolerance takes as long to compute as the output. A coarse limit refutes most mistakes
    # without it.
    far = _FAR * run.right.scale
    if not bool((_sampled_difference(made, run) <= far).all()):
        return False
    return bool((_difference(made, run) <= _tolerance(made, run.right)).all())


def _scaled(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Return a diagnosis if all outputs are the right ones times one factor, or None."""
    probes = runs[:_FEW]
    factor = factor_of(
        [run.actual.cpu().double() for run in probes], [run.right.output() for run in probes]
    )
    if factor is None or sum(run.actual.numel() for run in runs) < _ENOUGH:
        return None
    # The factor is fitted to rounded outputs, so that the tolerance has to be wider.
    slack = 2.0 * max(1.0, abs(factor))
    for run in runs:
        off = (run.actual.cpu().double() - factor * run.right.output()).abs()
        if not bool((off <= slack * _tolerance((), run.right)).all()):
            return None
    return Diagnosis(
        "output scaled",
        f"Every output is {factor:.4g} times what it should be; look for a wrong factor, "
        "or for terms that are summed more or less than once.",
    )


def _off_by_channel(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Return a diagnosis if each output channel is off by one number at all positions, or None."""
    several = 0
    for run in runs:
        off = run.actual.cpu().double() - run.right.output()
        channels = off.transpose(0, 1).flatten(1)
        mean = channels.mean(1, keepdim=True)
        # The added number is rounded together with the sum.
        allowed = _tolerance((), run.right).transpose(0, 1).flatten(1)
        slack = 2.0 * allowed + CLASSES[1].roundoff * mean.abs()
        if not bool(((channels - mean).abs() <= slack).all()):
            return None
        several += channels.shape[1] >= _ENOUGH
    if several < _FEW:
        return None
    return Diagnosis(
        "a number added to each output channel",
        "Each output channel is off by one number, the same at all positions; look at "
        "the bias, and at the initial value of the sum.",
    )


def _in_one_part(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Return a diagnosis if all wrong elements lie in one part, common to all outputs, or None."""
    # A few runs come first: what they do not have in common, all runs do not have in common.
    where = ""
    for some in (runs[:_FEW], runs):
        wrong = [~_agrees((), run) for run in some]
        where = where_wrong(wrong) or which_part(wrong, [run.right.parts() for run in some])
        if not where or len(runs) < _FEW:
            return None
    return Diagnosis(
        "wrong in one part",
        f"In every failing case all wrong elements lie {where}; look at how the kernel "
        "divides the output there.",
    )


def _unwritten(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Return a diagnosis if all wrong elements are ones that nothing wrote, or None."""
    places = []
    for run in runs:
        wrong = ~_agrees((), run)
        actual = run.actual.cpu()
        blank = (actual == 0) | ~actual.isfinite() if run.unwritten is None else run.unwritten
        if not wrong.any() or not blank[wrong].all():
            return None
        places.append(_places(wrong, blank))
    if all(run.unwritten is not None and bool(run.unwritten.all()) for run in runs):
        return Diagnosis(
            "nothing written",
            "No element of any output is written; look for a kernel that is not "
            "launched, or that returns before it stores.",
        )
    shared = [kind for kind in places[0] if all(kind in place for place in places)]
    where = places[0][shared[0]] if shared else "in several places"
    return Diagnosis(
        "elements not written",
        f"The written elements are right, but the output is not written {where}; check "
        "the grid's size and the test against the output's size.",
    )


def _places(wrong: Tensor, blank: Tensor) -> dict[str, str]:
    """Describe where the unwritten end of each row, and of the whole output, begins.

    The result has the key "of each row" only if the ends of all rows are unwritten. It has the key
    "of the whole" only if the end of the output is unwritten.
    """
    found = {}
    length = wrong.shape[-1]
    start = int(wrong.nonzero()[:, -1].min())
    if start > 0 and blank[..., start:].all():
        found["of each row"] = f"from position {start} of {length} on"
    first = int(wrong.flatten().nonzero().min())
    if first > 0 and blank.flatten()[first:].all():
        found["of the whole"] = f"from element {first} of {wrong.numel()} on"
    return found
