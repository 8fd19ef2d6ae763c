"""Detection of operands rounded to fewer bits than float32 has, by the errors of the output.

The bound of a sum grows with the number of its terms. The loss from rounded operands grows with the
root of that number. In long sums, operands of fewer bits therefore hide under the bound. But their
loss is known to the last bit, and so is its effect on each output. An error that comes from rounded
operands agrees with that effect. An error of float32's sums does not.

Let r be what rounding to some number of bits adds to an operand. The linear map J takes r to its
effect on the output, J r, and J' is the transpose of J. Let e be the output's error. The statistic
is T = <r, J'e> / |r * J'e|, where * multiplies element by element.

Whatever the other numbers are, each element of r has either sign with equal probability. The reason
is that operands are drawn evenly between any two neighbouring numbers of so few bits. float32
rounds sums of continuous products by digits 2^-24 below the partial sum. These digits do not depend
on the signs of r. So for an honest sum, T is a sum of given numbers with random signs. Hoeffding's
inequality (1963) gives P(T > t) <= exp(-t t / 2), which is 8.8e-17 for t = 8.6. A call has 72 such
tests: 26 roundings of each of two operands, and 10 by chance (`chance_rounding`). In 90,000 calls
together, an honest submission is accused with a probability of less than 1e-9.

A kernel may split operands and leave out the smallest products (3xTF32). Its error e depends on the
signs of r a little, because e contains a small share of J r. So the test also requires that this
share, s = <r, J'e> / |J r|^2, is large enough. The share is 1 for a kernel that makes the rounding
r of all numbers. If it rounds a part of the channels, rows or positions alone, the share is that
part. A kernel that keeps 22 bits of all numbers has a share of 4^(b - 22) for a rounding to b bits.
Eight times that share is required, at least 1/64 and at most 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from harness.judging.chance_rounding import BITS, MOST_DEVIATIONS, by_chance
from harness.judging.oracle import CLASSES
from harness.judging.result_bits import NarrowResults
from harness.problems.factors import Factor
from harness.records.comparison import Precision

How = Literal["nearest", "zero", "chance"]
"""The rounding mode: to the nearest number, towards zero, or stochastic.

Stochastic rounding takes one of the two neighbouring numbers, and is right on average.
"""

_HOWS: tuple[How, ...] = ("nearest", "zero")
# The fp32 class admits operands of two parts of 11 bits each (3xTF32), which may lose the 22nd bit.
# Operands of 21 bits and more are therefore not looked for.
_FEWEST_BITS, _MOST_BITS = 8, 20
_BITS = range(_FEWEST_BITS, _MOST_BITS + 1)
# The fewest bits that are kept by split operands. The threshold of s is a multiple of their share.
_BITS_OF_PARTS = 22
_TIMES_SHARE_OF_PARTS = 8.0
_LEAST_SHARE, _MOST_NEEDED_SHARE = 1 / 64, 0.5
_FLOAT32_BITS = 24
# Size of a chunk in numbers, by type of device. It is small enough for a CPU's cache, and large
# enough for a GPU's launches to be worth it.
_AT_A_TIME = {"cpu": 1 << 13, "cuda": 1 << 20}


@dataclass(frozen=True)
class Rounding:
    """A finding that a submission rounded an operand to fewer bits than float32 has.

    Attributes:
        operand: Name of the operand.
        bits: Number of bits that the mantissa keeps, with the leading one.
        how: The rounding mode.
        deviations: The statistic T of the module's docstring.
    """

    operand: str
    bits: int
    how: How
    deviations: float


def roundings(factors: Sequence[Factor], error: Tensor) -> tuple[Rounding, ...]:
    """Return the most evident rounding of each operand that a submission rounded.

    Args:
        factors: The operands of a reference, drawn from continuous distributions.
        error: The output minus the exact output, float64, of the output's shape.
    """
    found = (_rounding(factor, error) for factor in factors)
    return tuple(each for each in found if each)


def class_of(found: Sequence[Rounding | NarrowResults]) -> Precision:
    """Return the tightest precision class whose numbers may have as few bits as were found."""
    roundoff = 2.0 ** (1 - min(each.bits for each in found))
    looser = (each.name for each in CLASSES[1:] if roundoff <= each.roundoff)
    return next(looser, CLASSES[-1].name)


def describe(found: Iterable[Rounding | NarrowResults]) -> Iterator[str]:
    """Yield one note for each rounded operand, from the roundings of any number of calls.

    A note about rounded results follows, if there are any.
    """
    every = [*found]
    rounded = (each for each in every if isinstance(each, Rounding))
    narrow = [each for each in every if isinstance(each, NarrowResults)]
    by_operand = sorted(rounded, key=lambda each: (each.operand, -each.deviations))
    for operand, of_one in groupby(by_operand, key=lambda each: each.operand):
        most = next(of_one)
        yield (
            f"its {operand} is rounded to {most.bits} bits ({_WORDS[most.how]}): the "
            f"errors are those of this rounding, at {most.deviations:.3g} standard "
            "deviations"
        )
    if narrow:
        yield min(narrow, key=lambda each: each.bits).describe()


_WORDS = {"nearest": "to nearest", "zero": "towards zero", "chance": "by chance"}


def _rounding(factor: Factor, error: Tensor) -> Rounding | None:
    """Return the rounding of one operand that the output's errors show, or None."""
    # T of n numbers is at most the root of n (Cauchy-Schwarz), so fewer numbers cannot reach it.
    if factor.values.numel() < MOST_DEVIATIONS**2:
        return None
    weighed = factor.adjoint(error)
    agreement = deviations(factor.values, weighed)
    for place in agreement.flatten().argsort(descending=True).tolist():
        how, bits = _HOWS[place // len(_BITS)], _BITS[place % len(_BITS)]
        found = Rounding(factor.name, bits, how, float(agreement.flatten()[place]))
        if not found.deviations > MOST_DEVIATIONS:
            break
        added = _added(factor.values.double(), bits, how)
        share = float((added * weighed).sum() / factor.image(added).square().sum())
        # A coarser rounding with a small share may have the largest T. The next one is tried then.
        if share > _needed_share(bits):
            return found
    return _by_chance(factor, weighed)


def _needed_share(bits: int) -> float:
    """Return the smallest share s of the module's docstring for a rounding to `bits` bits."""
    of_parts = 4.0 ** (bits - _BITS_OF_PARTS)
    return min(max(_TIMES_SHARE_OF_PARTS * of_parts, _LEAST_SHARE), _MOST_NEEDED_SHARE)


def _by_chance(factor: Factor, weighed: Tensor) -> Rounding | None:
    """Return the rounding by chance of one operand that the output's errors show, or None."""
    found = by_chance(factor.values, weighed)
    place = int(found.deviations.argmax())
    bits, most = BITS[place], float(found.deviations[place])
    if not most > MOST_DEVIATIONS:
        return None
    # The mean of |J_i|^2, the square of an element's effect on the outputs.
    added = _added(factor.values.double(), bits, "nearest")
    effect = float(factor.image(added).square().sum() / added.square().sum())
    whole = (effect * 2.0 ** (found.highest - bits)) ** 2
    is_large = float(found.slopes[place]) > _needed_share(bits) * whole
    return Rounding(factor.name, bits, "chance", most) if is_large else None


def deviations(values: Tensor, weighed: Tensor) -> Tensor:
    """Compute the statistic T of the module's docstring for each rounding mode and number of bits.

    Args:
        values: An operand, float32.
        weighed: J'e, the output's error mapped back to the operand; float64, of the operand's
            shape.

    Returns:
        T, float64, of shape (len(_HOWS), len(_BITS)).
    """
    mantissa, exponent = torch.frexp(values.flatten())
    # The mantissa as an integer of 24 bits, and the effect of a one in its last bit. What each
    # rounding adds follows from the low bits of that integer, in units of the last bit.
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
    """Return what rounding adds to each number, minus the mean of what rounding adds.

    The mean is subtracted because it acts like an error of the whole sum. It is over numbers that
    `bits` bits cannot represent. Rounding towards zero takes half of the last bit off these numbers
    on average. A tie may round to either side, and counts as 0.

    Args:
        values: Numbers, float64.
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
