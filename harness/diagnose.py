"""Name the mistake behind a wrong output of a transposed convolution.

The known mistake whose result is what the submission gave, for every wrong run that is shown, is
the diagnosis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.grid import Convolution
from harness.mistakes import LENGTH_MISTAKES, MISTAKES, Operands, transposed_convolution
from harness.oracle import CLASSES, gamma


@dataclass(frozen=True)
class WrongRun:
    """A run whose output the oracle did not accept.

    Attributes:
        operands: What the output is computed from.
        actual: The output.
        unwritten: Which of its elements nobody wrote; None where that is to be guessed from their
            values.
    """

    operands: Operands
    actual: Tensor
    unwritten: Tensor | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The known mistake that gives a submission's wrong outputs.

    Attributes:
        name: The mistake, short.
        advice: What the kernel does and where to look.
        alternatives: Names of other mistakes that give the same outputs.
    """

    name: str
    advice: str
    alternatives: tuple[str, ...] = ()


def diagnose(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Name the known mistake that reproduces every one of some wrong outputs.

    Args:
        runs: Wrong outputs of the right shape. A few small ones are enough, and the more they
            differ in their sizes, the fewer mistakes fit them all.

    Returns:
        The diagnosis, or None when no known mistake explains all of them.
    """
    if not runs:
        return None
    unwritten = _unwritten(runs)
    if unwritten is not None:
        return unwritten
    fitting = [m for m in MISTAKES if all(_reproduces(m.compute, run) for run in runs)]
    if not fitting:
        return None
    first, *others = fitting
    return Diagnosis(first.name, first.advice, tuple(mistake.name for mistake in others))


def _tolerance(compute: Callable[[Operands], Tensor], operands: Operands) -> Tensor:
    """Give the tf32 class's bound for a computation that is linear in absolute values."""
    tf32 = CLASSES[1]
    terms = operands.weight.shape[0] * operands.weight.shape[2] + 1.0
    grown = (1.0 + tf32.roundoff) ** tf32.roundings
    rounding = gamma(torch.tensor(terms), tf32.accumulation)
    return (grown - 1.0 + rounding * grown) * compute(operands.absolute()) + tf32.smallest


def _agrees(compute: Callable[[Operands], Tensor], run: WrongRun) -> Tensor:
    difference = (run.actual.cpu().double() - compute(run.operands)).abs()
    return difference <= _tolerance(compute, run.operands)


def _reproduces(compute: Callable[[Operands], Tensor], run: WrongRun) -> bool:
    return bool(_agrees(compute, run).all())


def _unwritten(runs: Sequence[WrongRun]) -> Diagnosis | None:
    """Recognise outputs that are right but for elements left at 0, or at what memory held."""
    places = []
    for run in runs:
        actual = run.actual.cpu()
        wrong = ~_agrees(transposed_convolution, run)
        blank = (actual == 0) | ~actual.isfinite() if run.unwritten is None else run.unwritten
        if not wrong.any() or not blank[wrong].all():
            return None
        places.append(_places(wrong, blank))
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


def diagnose_length(wrong: Sequence[tuple[Convolution, int]]) -> str | None:
    """Say which mistake in the formula of the output length gives some wrong lengths.

    Args:
        wrong: The sizes of cases with a wrong shape, and the output length that each got.

    Returns:
        One sentence, or None when no known mistake explains all of them.
    """
    for mistake, length in LENGTH_MISTAKES:
        if wrong and all(length(sizes) == actual for sizes, actual in wrong):
            return (
                f"In the output length, {mistake}; it is (length - 1) * stride - 2 * padding "
                "+ dilation * (kernel_size - 1) + output_padding + 1."
            )
    return None
