"""Detection of operands rounded by chance, by the squares of the output's errors.

Stochastic rounding takes one of the two neighbours of a number, so that the error is 0 on average.
Let a number lie at the share l of the way between its neighbours, whose distance is d. The rounding
takes the upper one with probability l. Its error has the mean 0 and the variance q d d, where
q = l (1 - l). So errors tell nothing by their signs, but their squares agree with q.

Let e be the output's error, and z = J'e as in `kept_bits`. The squares of z are centred in each
binade, a range of numbers with the same d, and weighted by d d. The results c are compared with q:
the statistic is T = sum(c q) / sqrt(v sum(c c)).

Whatever the other numbers are, l is evenly distributed, because operands are drawn evenly between
any two neighbouring numbers of so few bits. The errors of an honest sum do not depend on it. So T
is a sum of given numbers with random q. Numerically, for s >= -3 and an l of 4 or more bits,

    E exp(s (q - E q)) <= exp(v s s / 2),    v = 1 / 165.

Chernoff's bound is then P(T > t) <= exp(-t t / 2), as for random signs. It holds for t up to
`MOST_DEVIATIONS`, if no c is so far below 0 that s would be below -3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BITS = range(8, 18)
"""Numbers of bits that are looked for; l has 4 bits or more in all binades that are used."""
MOST_DEVIATIONS = 8.6
"""The largest t for which the bound of the module's docstring is used."""

_FLOAT32_BITS = 24
# Random numbers are multiples of 2^-24, so small ones have fewer bits.
_BINADES = 4
_VARIANCE_BOUND = 1 / 165
# Variance of l (1 - l) for an evenly distributed l.
_VARIANCE = 1 / 180
_LEAST_EXPONENT = -3.0
# Of normal numbers, the few largest would outweigh all others.
_LEAST_SHARE_OF_BINADE = 1 / 64
# Of fewer numbers, the smallest c is nearly always too far below 0.
_LEAST_NUMBERS = 1 << 9
# More numbers take longer, and so many show any such rounding.
_MOST_NUMBERS = 1 << 15
_AT_A_TIME = 1 << 13


@dataclass(frozen=True)
class Chance:
    """How the squares of an output's errors agree with roundings of an operand by chance.

    Attributes:
        deviations: The statistic T of the module's docstring for each number of `BITS`; float64.
        slopes: For each number of `BITS`, how much the square of J'e grows with q, in the highest
            binade; float64. If all numbers are rounded by chance, it is the square of d |J_i|^2.
        highest: Exponent of the highest binade that is used; its numbers are less than 2**highest.
    """

    deviations: Tensor
    slopes: Tensor
    highest: int


def by_chance(values: Tensor, weighed: Tensor) -> Chance:
    """Compare the squares of an output's errors with what rounding by chance makes of them.

    Args:
        values: An operand, float32.
        weighed: J'e, the output's error mapped back to the operand; float64, of the operand's
            shape.
    """
    agreement = torch.zeros(len(BITS), dtype=torch.float64)
    if values.numel() < _LEAST_NUMBERS:
        return Chance(agreement, agreement, 0)
    values, weighed = _some(values.flatten(), weighed.flatten())
    mantissa, exponent = torch.frexp(values)
    highest = _highest_binade(exponent[mantissa != 0])
    binades = torch.arange(_BINADES, device=values.device)
    inside = (highest - binades[:, None] == exponent) & (mantissa != 0)
    members = inside.double()
    squares, scales = weighed.square(), 0.25 ** binades.double()
    means = members @ squares / members.sum(1).clamp_min(1.0)
    weights = scales @ members
    centred = weights * squares - (scales * means) @ members
    norm = float(centred.square().sum().sqrt()) * math.sqrt(_VARIANCE_BOUND)
    lowest = MOST_DEVIATIONS * float(centred.min())
    if not 0 < norm < math.inf or lowest < _LEAST_EXPONENT * norm:
        return Chance(agreement, agreement, highest)
    shares = (centred / norm).float()
    whole = (mantissa.abs() * 2.0**_FLOAT32_BITS).int()
    steps = torch.tensor([[1 << (_FLOAT32_BITS - bits)] for bits in BITS], device=values.device)
    steps = steps.int()
    for start in range(0, len(whole), _AT_A_TIME):
        lost = (whole[start : start + _AT_A_TIME] & (steps - 1)) / steps
        agreement += ((lost - lost.square()) @ shares[start : start + _AT_A_TIME]).double().cpu()
    spread = _VARIANCE * float(weights.square().sum())
    return Chance(agreement, agreement * (norm / spread), highest)


def _some(values: Tensor, weighed: Tensor) -> tuple[Tensor, Tensor]:
    """Return evenly spaced elements of both, at most 2**15 of each.

    The first one depends on the error's bits, so that a kernel cannot spare the numbers that are
    looked at.
    """
    step = -(-len(values) // _MOST_NUMBERS)
    start = int(weighed[:1].view(torch.int64)) % step
    return values[start::step], weighed[start::step]


def _highest_binade(exponents: Tensor) -> int:
    """Return the largest exponent that at least a 64th of the numbers have.

    If there is none, the most frequent exponent is returned; without numbers, 0.
    """
    if not len(exponents):
        return 0
    lowest = int(exponents.min())
    counts = (exponents - lowest).bincount()
    least = min(_LEAST_SHARE_OF_BINADE * len(exponents), float(counts.max()))
    return lowest + int((counts >= least).nonzero().max())
