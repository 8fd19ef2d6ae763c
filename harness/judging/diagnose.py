"""Name the mistake behind wrong outputs.

The known mistake whose result is what the submission gave, for every wrong run that is shown, is
the diagnosis; where there is none, two or three mistakes that were made at once. Which mistakes are
known, the problem's family says. Where none are, what is seen: a factor, or in which part of the
output all that is wrong lies.
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

# Of three mistakes, so many pairs are tried with a third; by what they explain of so many outputs.
_PROMISING = 16
_PROBES = 2
# Of the largest sum, more than TF32 gets wrong.
_FAR = 0.01
# Of wrong outputs: what one or two have in common may be chance.
_FEW = 3
# Of the largest sum, more than the loosest class of precision gets wrong.
_BEYOND_ROUNDING = 0.05
_ON_ONE_PATH = "It would show in cases that passed, too: look where only the failing ones come by."
# Numbers that each of several mistakes has to explain.
_ENOUGH = 8


@dataclass(frozen=True)
class WrongRun:
    """A run whose output the oracle did not accept.

    Attributes:
        right: What it should have computed.
        actual: The output.
        unwritten: Which of its elements nobody wrote; None where that is to be guessed from their
            values.
    """

    right: Computation
    actual: Tensor
    unwritten: Tensor | None = None


Made = tuple[Mistake[Any], ...]
"""Mistakes that are made at once, one after the other."""


@dataclass(frozen=True)
class Diagnosis:
    """What gives a submission's wrong outputs: a known mistake, or several at once.

    Attributes:
        name: The mistakes, short.
        advice: What the kernel does and where to look.
        alternatives: Names of other mistakes that give the same outputs.
        made: The mistakes; none where it is told what is seen.
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
    """Name the known mistakes that reproduce every one of some wrong outputs.

    One mistake, if one does; else two, and else three.

    Args:
        runs: Wrong outputs of the right shape. The more they differ in their sizes, the fewer
            mistakes fit them all.
        mistakes: The known ones; where several fit, the earlier is named first.
        passed: What was computed as is right. A mistake that would have shown there is named only
            where no other fits, and then that is said.

    Returns:
        The diagnosis, or None when nothing known explains all of them.
    """
    if not runs:
        return None
    unwritten = _unwritten(runs)
    if unwritten is not None:
        return unwritten
    # What is refuted is refuted by a small one.
    runs = sorted(runs, key=lambda run: run.right.work)
    combined = [mistake for mistake in mistakes if not mistake.comes_alone]
    for search, among in ((_single, mistakes), (_pairs, combined), (_triples, combined)):
        fitting = [
            made for made in search(runs, among) if all(_reproduces(made, run) for run in runs)
        ]
        if fitting:
            return _of_fitting(fitting, passed)
    return _scaled(runs) or _off_by_channel(runs) or _in_one_part(runs)


def _of_fitting(fitting: Sequence[Made], passed: Sequence[Computation]) -> Diagnosis:
    """The first of those that would not have shown where nothing is wrong, if there is one."""
    hidden = [made for made in fitting if not any(_shows(made, right) for right in passed)]
    first, *others = map(_named, hidden or fitting)
    if not hidden:
        first = replace(first, advice=f"{first.advice} {_ON_ONE_PATH}")
    return replace(first, alternatives=tuple(other.name for other in others))


def _shows(made: Made, right: Computation) -> bool:
    """Whether mistakes make of a computation what no class of precision allows."""
    off = (output_of(made, right) - right.output()).abs()
    return bool((off.isnan() | (off > _BEYOND_ROUNDING * right.scale)).any())


def output_of(made: Made, right: Computation) -> Tensor:
    """What mistakes make of a computation; float64, on the CPU."""
    return _changed(made, right).output()


def _changed(made: Made, right: Computation) -> Computation:
    changed: Computation = reduce(lambda changed, mistake: mistake.change(changed), made, right)
    return changed


def _single(_: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    return ((mistake,) for mistake in mistakes)


def _pairs(runs: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    if _tells_enough(runs, 2):
        yield from itertools.combinations(mistakes, 2)


def _triples(runs: Sequence[WrongRun], mistakes: Sequence[Mistake[Any]]) -> Iterator[Made]:
    """Those pairs that explain most, each with every other mistake."""
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
    """Whether what so many mistakes at once explain is no accident of a few numbers."""
    return len(runs) >= count and sum(run.actual.numel() for run in runs) >= _ENOUGH * count


def _named(made: Made) -> Diagnosis:
    name = " and ".join(mistake.name for mistake in made)
    return Diagnosis(name, " ".join(mistake.advice for mistake in made), made=made)


def _tolerance(made: Made, right: Computation) -> Tensor:
    """Give the tf32 class's bound for a computation that is linear in absolute values."""
    tf32 = CLASSES[1]
    grown = (1.0 + tf32.roundoff) ** tf32.roundings
    rounding = gamma(torch.tensor(right.terms), tf32.accumulation)
    bound = (grown - 1.0 + rounding * grown) * output_of(made, right.absolute()) + tf32.smallest
    # Where a mistake reads out of bounds.
    return bound.nan_to_num()


def _difference(made: Made, run: WrongRun) -> Tensor:
    return _off(run.actual.cpu(), output_of(made, run.right))


def _agrees(made: Made, run: WrongRun) -> Tensor:
    return _difference(made, run) <= _tolerance(made, run.right)


def _sampled_difference(made: Made, run: WrongRun) -> Tensor:
    """Of some of the output: most mistakes are refuted by it, in less time."""
    values, places = _changed(made, run.right).sample()
    return _off(run.actual.cpu().index_select(1, places), values)


def _off(actual: Tensor, values: Tensor) -> Tensor:
    """How far outputs are from what mistakes make of them; 0 where neither is a number."""
    off = (actual.double() - values).abs()
    return off.masked_fill(actual.isnan() & values.isnan(), 0.0)


def _explained(made: Made, run: WrongRun) -> float:
    """The share of the output that mistakes explain, roughly."""
    return float((_sampled_difference(made, run) <= _FAR * run.right.scale).double().mean())


def _reproduces(made: Made, run: WrongRun) -> bool:
    # What is far off needs no tolerance, which takes as long again.
    far = _FAR * run.right.scale
    if not bool((_sampled_difference(made, run) <= far).all()):
        return False
    return bool((_difference(made, run) <= _tolerance(made, run.right)).all())


def _scaled(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Recognise outputs that are the right ones times one number."""
    probes = runs[:_FEW]
    factor = factor_of(
        [run.actual.cpu().double() for run in probes], [run.right.output() for run in probes]
    )
    if factor is None or sum(run.actual.numel() for run in runs) < _ENOUGH:
        return None
    # The factor is fitted to what was rounded.
    slack = 2.0 * max(1.0, abs(factor))
    for run in runs:
        off = (run.actual.cpu().double() - factor * run.right.output()).abs()
        if not bool((off <= slack * _tolerance((), run.right)).all()):
            return None
    return Diagnosis(
        "output scaled",
        f"Every output is {factor:.4g} times what it should be; look for a factor, or for sums "
        "that are taken more or less than once.",
    )


def _off_by_channel(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Recognise outputs of which each channel is off by one number wherever it is."""
    several = 0
    for run in runs:
        off = run.actual.cpu().double() - run.right.output()
        channels = off.transpose(0, 1).flatten(1)
        mean = channels.mean(1, keepdim=True)
        # What is added is rounded with the sum.
        allowed = _tolerance((), run.right).transpose(0, 1).flatten(1)
        slack = 2.0 * allowed + CLASSES[1].roundoff * mean.abs()
        if not bool(((channels - mean).abs() <= slack).all()):
            return None
        several += channels.shape[1] >= _ENOUGH
    if several < _FEW:
        return None
    return Diagnosis(
        "a number added to each output channel",
        "Each output channel is off by one number, the same at all positions; look at the bias, "
        "and at what the sum starts from.",
    )


def _in_one_part(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Say where all that is wrong lies, where that is the same in every output."""
    # What a few have not in common, all have not.
    where = ""
    for some in (runs[:_FEW], runs):
        wrong = [~_agrees((), run) for run in some]
        where = where_wrong(wrong) or which_part(wrong, [run.right.parts() for run in some])
        if not where or len(runs) < _FEW:
            return None
    return Diagnosis(
        "wrong in one part",
        f"In every failing case all that is wrong lies {where}; look at how the kernel divides "
        "the output there.",
    )


def _unwritten(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Recognise outputs that are right but for elements left at 0, or at what memory held."""
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
            "No element of any output is written; look for a kernel that is not launched, or that "
            "leaves before it stores.",
        )
    shared = [kind for kind in places[0] if all(kind in place for place in places)]
    where = places[0][shared[0]] if shared else "in several places"
    return Diagnosis(
        "elements not written",
        f"What is written is right, but output is left unwritten {where}; check the grid's size "
        "and the test against the output's size.",
    )


def _places(wrong: Tensor, blank: Tensor) -> dict[str, str]:
    """Say where the wrong elements lie, if they are a tail of each row, of the whole, or both."""
    found = {}
    length = wrong.shape[-1]
    start = int(wrong.nonzero()[:, -1].min())
    if start > 0 and blank[..., start:].all():
        found["of each row"] = f"from position {start} of {length} on"
    first = int(wrong.flatten().nonzero().min())
    if first > 0 and blank.flatten()[first:].all():
        found["of the whole"] = f"from element {first} of {wrong.numel()} on"
    return found
