"""Detection of results that a submission rounded to fewer bits than float32 has.

The bound of a long sum admits results of far fewer than 24 bits. Results of real arithmetic in
float32 have random last bits: k zeros at the end have a probability of 2^-k. Results that were
rounded to 24 - k bits all end in k zeros.

An honest result may end in zeros, too:

- It is exact, such as an input that was moved, or a sum of few small integers. So an element whose
  float32 is the nearest one to the oracle's value says nothing.
- It is a difference of larger numbers, such as exp(x) - 1. All results are then multiples of one
  number, the last bit of the larger ones. So results of the next binade, which are twice as large,
  end in one zero less. Rounded results end in equally many zeros in every binade.
- The reference's formula itself rounds each result so. Its own float32 results then do as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_FLOAT32_BITS = 24
# The last three bits may be lost by an approximation in hardware, or by split operands.
_FEWEST_ZEROS, _MOST_ZEROS = 4, 20
# A share of an output's elements that end in four zeros or more. A sixteenth of random ones does.
_LEAST_SHARE = 3 / 16
# In so many binades, so large a share of the elements ends in the same number of zeros. If all
# elements are rounded, it is a half. Of multiples of one number, it is a half in one binade, a
# quarter in the next, and an eighth in the third.
_LEAST_OF_BINADE = 0.25
_BINADES = 3
# At most a 32nd of random elements ends in just so many zeros. That 8 of 32 do so in one binade
# has a probability below 1e-5.
_LEAST_NUMBERS = 32
# So large a share of all elements but zeros is inexact and ends in these zeros, or in more. The few
# inexact ones may be special, such as ties of numbers of few bits that are added to a large number.
_LEAST_OF_ALL = 0.25
_EXPONENTS = 256
_PLACES = 32


@dataclass(frozen=True)
class NarrowResults:
    """A finding that a submission rounded its results to fewer bits than float32 has.

    Attributes:
        bits: Number of bits that the results keep, with the leading one.
        share: The share of the inexact elements that end in the same zeros, or in more.
    """

    bits: int
    share: float

    def describe(self) -> str:
        """Return a note about the results."""
        return (
            f"its results are rounded to {self.bits} bits: {self.share:.0%} of the inexact ones "
            f"end in {_FLOAT32_BITS - self.bits} zero bits, which float32 arithmetic does not do"
        )


def narrow_results(
    actual: Tensor, value: Tensor, in_float32: Callable[[], Tensor]
) -> NarrowResults | None:
    """Return the rounding of a submission's results to fewer bits, or None.

    Args:
        actual: The submission's output.
        value: The oracle's output, float64, of the same shape.
        in_float32: Function that returns the output of the reference in float32.
    """
    if actual.dtype is not torch.float32:
        return None
    last = actual.view(torch.int32) & ((1 << _FEWEST_ZEROS) - 1)
    if int((last == 0).sum()) < _LEAST_SHARE * last.numel():
        return None
    is_inexact = (actual != value.float()) & actual.isfinite()
    is_inexact &= actual.abs() >= torch.finfo(torch.float32).tiny
    counts = _counts(actual[is_inexact])
    zeros = next((k for k in range(_FEWEST_ZEROS, _MOST_ZEROS + 1) if _is_rounded(counts, k)), None)
    if zeros is None or _is_rounded(_counts(in_float32()[is_inexact]), zeros):
        return None
    narrow = int(counts[:, zeros:].sum())
    if narrow < _LEAST_OF_ALL * int(actual.count_nonzero()):
        return None
    return NarrowResults(_FLOAT32_BITS - zeros, narrow / int(counts.sum()))


def _counts(results: Tensor) -> Tensor:
    """Count float32 numbers by their exponent, and by the number of zeros at their end.

    Returns:
        Counts, int64, of shape (256, 32), on the CPU.
    """
    bits = results.view(torch.int32)
    # The leading bit, which float32 does not store, ends the zeros of a power of two.
    mantissa = (bits & ((1 << _FLOAT32_BITS - 1) - 1)) | (1 << _FLOAT32_BITS - 1)
    zeros = torch.frexp((mantissa & -mantissa).float()).exponent - 1
    exponent = (bits >> _FLOAT32_BITS - 1) & (_EXPONENTS - 1)
    counts = torch.bincount(exponent * _PLACES + zeros, minlength=_EXPONENTS * _PLACES)
    return counts.view(_EXPONENTS, _PLACES).cpu()


def _is_rounded(counts: Tensor, zeros: int) -> bool:
    """Return whether numbers of several binades end in just so many zeros too often."""
    every = counts.sum(1)
    many = (every >= _LEAST_NUMBERS) & (counts[:, zeros] >= _LEAST_OF_BINADE * every)
    return int(many.sum()) >= _BINADES
