"""Whether a submission has rounded its operands to fewer bits than float32's, by its errors.

The bound of a sum grows with the number of its terms, and what is lost of operands with the root of
it: where sums are long, operands of fewer bits hide under the bound. But what they lose is known to
the last bit, and so is what that makes of each output. An error that comes of it agrees with that,
and an error of float32's sums does not.

Let r be what rounding to some bits adds to an operand, J r what that makes of the output, and e the
output's error. The statistic is T = <r, J'e> / |r * J'e|, with * element by element. Given all
else, each element of r has either sign with equal probability: operands are drawn evenly between
any two numbers of so few bits. Sums of continuous products are rounded by what lies 2^-24 below the
partial sum, which does not depend on such a sign; so T is a sum of given numbers with random signs,
and Hoeffding's inequality (1963) has P(T > t) <= exp(-t t / 2). For t = 8.5 that is 2.1e-16. With
26 roundings of each of two operands, 90,000 calls together accuse an honest submission with a
probability of less than 1e-9.

Where that independence holds but nearly, as of products of split operands whose smallest are left
out, what there is of r in e is a small share of it. So e must have at least half of what r makes:
s = <r, J'e> / |J r|^2 is 1 for who rounds so, and at most 1/4 for who keeps a bit more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from harness.judging.oracle import CLASSES
from harness.problems.factors import Factor
from harness.records.comparison import Precision

How = Literal["nearest", "zero"]
"""Where numbers are rounded to."""

_HOWS: tuple[How, ...] = ("nearest", "zero")
# The fp32 class has operands of two parts of 11 bits each (3xTF32), which may lose the 22nd.
_FEWEST_BITS, _MOST_BITS = 8, 20
_BITS = range(_FEWEST_BITS, _MOST_BITS + 1)
_DEVIATIONS = 8.5
_LEAST_SHARE = 0.5
_FLOAT32_BITS = 24
# Numbers at a time, by the type of device: few enough for a processor's cache, and enough to be
# worth a GPU's launches.
_AT_A_TIME = {"cpu": 1 << 13, "cuda": 1 << 20}


@dataclass(frozen=True)
class Rounding:
    """An operand of fewer bits than it was given.

    Attributes:
        operand: Its name.
        bits: Of the mantissa, the leading one included.
        how: To the nearest number of so many bits, or towards zero.
        deviations: T, as above.
    """

    operand: str
    bits: int
    how: How
    deviations: float


def roundings(factors: Sequence[Factor], error: Tensor) -> tuple[Rounding, ...]:
    """Find the operands that were rounded, and how; of each the rounding that tells most.

    Args:
        factors: The operands of a reference, drawn from continuous distributions.
        error: The output less the exact one, float64, of the output's shape.
    """
    found = (_rounding(factor, error) for factor in factors)
    return tuple(each for each in found if each)


def class_of(found: Sequence[Rounding]) -> Precision:
    """Give the tightest class with operands of so few bits."""
    roundoff = 2.0 ** (1 - min(each.bits for each in found))
    looser = (each.name for each in CLASSES[1:] if roundoff <= each.roundoff)
    return next(looser, CLASSES[-1].name)


def describe(found: Iterable[Rounding]) -> Iterator[str]:
    """Say of each operand what its errors tell, given what any calls have shown."""
    by_operand = sorted(found, key=lambda each: (each.operand, -each.deviations))
    for operand, of_one in groupby(by_operand, key=lambda each: each.operand):
        most = next(of_one)
        yield (
            f"its {operand} is rounded to {most.bits} bits ({_WORDS[most.how]}): its errors are "
            f"those that this makes, at {most.deviations:.3g} standard deviations"
        )


_WORDS = {"nearest": "to nearest", "zero": "towards zero"}


def _rounding(factor: Factor, error: Tensor) -> Rounding | None:
    # No sum of fewer signs is so large.
    if factor.values.numel() < _DEVIATIONS**2:
        return None
    weighed = factor.adjoint(error)
    agreement = deviations(factor.values, weighed)
    for place in agreement.flatten().argsort(descending=True).tolist():
        how, bits = _HOWS[place // len(_BITS)], _BITS[place % len(_BITS)]
        found = Rounding(factor.name, bits, how, float(agreement.flatten()[place]))
        if not found.deviations > _DEVIATIONS:
            return None
        added = _added(factor.values.double(), bits, how)
        share = float((added * weighed).sum() / factor.image(added).square().sum())
        # A small share of a coarser rounding may stand out more, and hides no finer one.
        if share > _LEAST_SHARE:
            return found
    return None


def deviations(values: Tensor, weighed: Tensor) -> Tensor:
    """Compute T for each rounding: float64, (len(_HOWS), len(_BITS)).

    Args:
        values: An operand, float32.
        weighed: J'e, float64, of its shape.
    """
    mantissa, exponent = torch.frexp(values.flatten())
    # A whole number of 24 bits, and what a one in its last bit makes.
    whole = (mantissa.abs() * 2.0**_FLOAT32_BITS).int()
    last = torch.ldexp(weighed.flatten() * values.flatten().sign(), exponent - _FLOAT32_BITS)
    largest = float(last.abs().max())
    if not 0 < largest < math.inf:
        return torch.zeros(len(_HOWS), len(_BITS), dtype=torch.float64)
    last = (last / largest).float()
    half = torch.tensor([[1 << (_FLOAT32_BITS - 1 - bits)] for bits in _BITS], device=values.device)
    half = half.int()
    sums, squares = torch.zeros(2, len(_HOWS), len(_BITS), dtype=torch.float64)
    at_a_time = _AT_A_TIME[values.device.type]
    for start in range(0, len(whole), at_a_time):
        some, ones = whole[start : start + at_a_time], last[start : start + at_a_time]
        lost = some & (2 * half - 1)
        to_zero = (half - lost).where(lost != 0, 0)
        to_nearest = (to_zero - half * to_zero.sign()).where(lost != 0, 0)
        for row, added in enumerate((to_nearest.float(), to_zero.float())):
            sums[row] += (added @ ones).double().cpu()
            squares[row] += (added.square() @ ones.square()).double().cpu()
    agreement: Tensor = sums / squares.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    return agreement


def _added(values: Tensor, bits: int, how: How) -> Tensor:
    """Give what rounding adds to numbers, less what it adds to all that are not representable.

    Rounding towards zero takes half of the last bit off them on average, which is as an error of
    the whole sum; a tie is rounded to either side.

    Args:
        values: Float64.
        bits: As in `Rounding`.
        how: As in `Rounding`.
    """
    mantissa, exponent = torch.frexp(values.abs())
    scaled = mantissa * 2.0**bits
    lost = scaled - scaled.floor()
    added = torch.where(lost > 0, 0.5 - lost, 0.0)
    if how == "nearest":
        added = torch.where(lost > 0, added - 0.5 * added.sign(), 0.0)
    return torch.ldexp(added * values.sign(), exponent - bits)
