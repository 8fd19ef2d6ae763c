"""Error-bound rules of softmax and layer norm, whose results are bounded for every operand.

The decompositions of these operators would lose that property: a quotient has no bound if its
divisor may be 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import add, monotone, mul
from harness.problems.rounding.reductions import var
from harness.problems.rounding.tracked import SINGLE, RoundingErrors, Tracked, rule

_aten = torch.ops.aten


@rule("_softmax")
def softmax(
    rounding: RoundingErrors, operator: Any, x: Tracked, dim: int, half_to_float: bool = False
) -> Tracked:
    """Bound the error of a softmax, by the smallest and largest shares that its elements may have.

    A share is an element of the result, between 0 and 1. It grows when its own operand grows, and
    falls when another operand grows. With m the largest operand, each exp(x - m) has the error of
    the exponential and the error of rounding x - m. The sum of these terms has at most the largest
    relative error of a term, plus the error of the summation.
    """
    value = operator(x.value, dim, half_to_float)
    if not value.numel():
        return Tracked(value)
    stored = rounding.stored_roundoff
    # A masked term, which is infinite, has no share. It counts as 0 here.
    known = x.value.nan_to_num(0.0, 0.0, 0.0)
    largest = x.value.amax(dim, keepdim=True)
    reach = x.bound.amax(dim, keepdim=True) + x.bound
    apart = (largest - x.value).nan_to_num(0.0, 0.0, 0.0) + reach
    off = x.bound + (stored + 2.0 * SINGLE) * apart
    # __expf, of the differences or of the terms themselves: as in elementwise.py.
    far = apart + known.abs() + largest.nan_to_num(0.0, 0.0, 0.0).abs()
    each = (6.0 + 2.4 * far) * SINGLE + stored
    low, high = _softmax_bounds(x.value - largest - off, x.value - largest + off, dim)
    spread = torch.maximum(value - low, high - value)
    # The sum's relative error is a mean of its terms' errors, weighted by their shares.
    of_sum = torch.minimum((high * each).sum(dim, keepdim=True), each.amax(dim, keepdim=True))
    terms = value.shape[dim] if value.dim() else 1
    gamma = (terms + rounding.arithmetic.extra_terms) * rounding.arithmetic.accumulation
    relative = each + of_sum + gamma + stored + 4.0 * SINGLE
    lost = torch.where(relative < 0.5, 2.0 * relative * high, 1.0)
    most = torch.maximum(value, 1.0 - value) + 16.0 * SINGLE + 2.0 * stored
    return rounding.rounded(value, torch.minimum(spread + lost, most), units=4.0)


def _softmax_bounds(low: Tensor, high: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest softmax of operands between `low` and `high`."""
    # Any shift gives the same shares; this one keeps the exponentials from overflowing.
    shift = high.amax(dim, keepdim=True)
    least, most = (low - shift).exp(), (high - shift).exp()
    others_most = (most.sum(dim, keepdim=True) - most).clamp_min(0.0)
    others_least = (least.sum(dim, keepdim=True) - least).clamp_min(0.0)
    return (
        (least / (least + others_most)).nan_to_num(0.0),
        (most / (most + others_least)).nan_to_num(1.0),
    )


@rule("native_layer_norm")
def layer_norm(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    shape: Any,
    weight: Tracked | None,
    bias: Tracked | None,
    eps: float,
) -> tuple[Tracked, Tracked, Tracked]:
    """Bound the error of a layer norm, which standardises by a mean and a variance.

    None of n numbers deviates from their mean by more than sqrt(n) standard deviations, which
    limits every result. Rounding adds the error of the mean, divided by the root of eps. The limit
    holds only if the error of the variance is small compared with eps.
    """
    del operator
    dims = list(range(x.value.dim() - len(shape), x.value.dim()))
    count = float(math.prod(shape))
    variance, mean = var(rounding, _aten.var_mean.correction, x, dims, correction=0, keepdim=True)
    scale = monotone(rounding, _aten.rsqrt.default, add(rounding, _aten.add.Tensor, variance, eps))
    result = mul(rounding, _aten.mul.Tensor, add(rounding, _aten.sub.Tensor, x, mean), scale)
    # The bound that the steps above carry is infinite where the variance plus eps may be 0.
    if result.error is not None and count:
        gamma = (count + 4.0) * rounding.arithmetic.accumulation
        squares = x.most.square().mean(dims, keepdim=True)
        of_mean = (gamma + 2.0 * rounding.stored_roundoff) * x.most.amax(dims, keepdim=True)
        limit = 2.0 * (math.sqrt(count) + of_mean / math.sqrt(eps / 2.0)) if eps > 0 else math.inf
        is_kept = 3.0 * gamma * squares < eps / 2.0
        most = torch.where(is_kept, result.value.abs() + limit, torch.inf)
        error = torch.minimum(result.error.nan_to_num(torch.inf, torch.inf), most)
        result = Tracked(result.value, error)
    if weight is not None:
        result = mul(rounding, _aten.mul.Tensor, result, weight)
    if bias is not None:
        result = add(rounding, _aten.add.Tensor, result, bias)
    return result, mean, scale
