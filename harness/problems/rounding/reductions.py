"""Operators that join elements along dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import powered
from harness.problems.rounding.tracked import (
    SINGLE,
    NoRuleError,
    Rounding,
    Terms,
    Tracked,
    between,
    certain,
    complex_rule,
    is_whole,
    rule,
)


def _dims(x: Tensor, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.dim()))
    return [d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim)]


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


@rule("sum")
@complex_rule("sum")
def summed(
    rounding: Rounding,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """In any order."""
    del operator
    dims = _dims(x.value, dim)
    if not (x.value.is_floating_point() or x.value.is_complex()):
        # Integers, and truth values that are counted: exact but where rounding decides of a term.
        error = None if x.error is None else x.error.sum(dims, keepdim)
        return Tracked(x.value.sum(dims, keepdim, dtype=dtype), error)
    value = x.value.sum(dims, keepdim)
    most = x.most.sum(dims, keepdim)
    count = _count(x.value, dims) - 1
    if is_whole(most, x):
        return Tracked(value, terms=Terms(torch.zeros_like(most), most, count))
    return rounding.summed(value, x.bound.sum(dims, keepdim), most, count)


@rule("mean")
@complex_rule("mean")
def averaged(
    rounding: Rounding,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """A sum, and a product with a rounded factor; or a mean that each term moves (Welford, 1962).

    The second divides at each step, and so is not exact where the sum is, as of small integers.
    """
    dims = _dims(x.value, dim)
    count = _count(x.value, dims)
    total = summed(rounding, operator, x, dim, keepdim, dtype)
    value = x.value.mean(dims, keepdim)
    lost = total.bound / count
    if total.error is None:
        terms = count + rounding.arithmetic.extra_terms
        lost = terms * rounding.arithmetic.accumulation * x.most.mean(dims, keepdim)
    return rounding.rounded(value, lost, units=3.0)


@rule("cumsum")
def accumulated(
    rounding: Rounding, operator: Any, x: Tracked, dim: int, dtype: Any = None
) -> Tracked:
    """Each prefix in any order."""
    if not x.value.is_floating_point():
        certain(operator, x)
        return Tracked(operator(x.value, dim, dtype=dtype))
    value, most = x.value.cumsum(dim), x.most.cumsum(dim)
    if is_whole(most, x):
        return Tracked(value)
    terms = torch.ones_like(value).cumsum(dim) - 1
    # A prefix may be the difference of two others: a scan that is exclusive, or reversed. Both are
    # pairwise sums then (Higham, (4.4)).
    whole = most.amax(dim, keepdim=True) if most.numel() else most
    depth = math.log2(value.numel() + 2)
    lost = 2.0 * (depth + 1.0) * SINGLE * whole
    return rounding.summed(value, x.bound.cumsum(dim) + lost, most, terms + depth)


@rule("cumprod", "prod")
def product(rounding: Rounding, operator: Any, x: Tracked, *args: Any, **kwargs: Any) -> Tracked:
    """Higham, lemma 3.1: one rounding for each factor.

    Factors may be taken in any order: where some of them overflow, whatever follows, nothing is
    known, and where some underflow, as little as what the others make of that.
    """
    kwargs.pop("dtype", None)
    value = operator(x.value, *args, **kwargs)
    spread = None if x.error is None else operator(x.most, *args, **kwargs) - value.abs()
    is_running = operator.overloadpacket.__name__ == "cumprod"
    count = torch.ones_like(x.value)
    units = count.cumsum(args[0]) if is_running else torch.tensor(float(x.value.numel()))
    growing = operator(x.most.clamp_min(1.0), *args, **kwargs)
    lost = torch.where(growing < _LARGEST, growing * rounding.arithmetic.smallest, torch.inf)
    return rounding.rounded(value, spread, units=units, absolute=lost)


@rule("var", "var_mean", "std")
def varied(
    rounding: Rounding,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    *args: Any,
    correction: float | None = 1,
    keepdim: bool = False,
) -> Any:
    """By the mean of squares about the mean, or by that of squares less the mean's square.

    Higham, section 1.9: the second loses gamma_n times the mean of squares. No sum of squares is
    less than nothing, so the lower end stops at 0.
    """
    if args:
        raise NoRuleError(f"{operator.overloadpacket.__name__} with unnamed arguments")
    name = operator.overloadpacket.__name__
    dims = _dims(x.value, dim)
    count = _count(x.value, dims)
    freedom = max(count - (1 if correction is None else correction), 0)
    mean = x.value.mean(dims, keepdim=True)
    around = (x.value - mean).abs()
    value = around.square().sum(dims, keepdim) / freedom
    reach = x.bound + x.bound.mean(dims, keepdim=True)
    spread = ((2 * around + reach) * reach).sum(dims, keepdim) / freedom
    squares = x.most.square().sum(dims, keepdim) / freedom
    gamma = (count + 4) * rounding.arithmetic.accumulation
    lost = 3 * gamma * squares
    if x.error is None and not bool(around.any()) and is_whole(squares * freedom, x):
        lost = torch.zeros_like(lost)
    variance = rounding.rounded(value, spread + lost, units=3.0)
    if name == "var":
        return variance
    if name == "std":
        root = value.sqrt()
        low = (value - variance.bound).clamp_min(0).sqrt()
        high = (value + variance.bound).sqrt()
        return rounding.rounded(root, torch.maximum(root - low, high - root), units=4.0)
    return variance, averaged(rounding, operator, x, dim, keepdim)


@rule("logsumexp")
def logarithm_of_sum(
    rounding: Rounding, operator: Any, x: Tracked, dim: Any, keepdim: bool = False
) -> Tracked:
    """It grows with each term, and by no more than the largest of their errors.

    With m the largest of the x, or 0: each exp(x - m) errs by its exponential, and by x - m where
    that is stored. Their sum is at least that of the least values, and 1 where m is the largest.
    Its relative error is an absolute one of the logarithm.
    """
    dims = _dims(x.value, dim)
    grown = between(lambda each: operator(each, dims, keepdim), x)
    if not x.value.numel():
        return grown
    low, high = x.ends
    stored = 2.0 * rounding.stored_roundoff
    apart = (low.amax(dims, keepdim=True) - high).nan_to_num(torch.inf).clamp_min(0.0)
    weight = (-apart).exp()
    far = (x.most + x.most.amax(dims, keepdim=True)).nan_to_num(0.0, 0.0, 0.0)
    # __expf: as in elementwise.py.
    exponentials = weight * (4.0 + 2.4 * far) * SINGLE
    # exp(-d) d is largest for d = 1; where d may be less, it may be that.
    differences = torch.where(apart > 1.0, weight * apart, math.exp(-1.0)).nan_to_num(0.0) * stored
    least = (low - high.amax(dims, keepdim=True)).nan_to_num(-torch.inf).exp()
    whole = least.sum(dims, keepdim).clamp_min(1.0)
    terms = _count(x.value, dims) + rounding.arithmetic.extra_terms
    relative = (exponentials + differences).sum(dims, keepdim) / whole
    relative = relative + terms * rounding.arithmetic.accumulation + stored
    lost = torch.where(relative < 0.5, 2.0 * relative, torch.inf) + 2.0**-21.4
    kept = x.most.amax(dims, keepdim) * SINGLE
    return rounding.rounded(grown.value, grown.error, units=6.0, absolute=lost + kept)


@rule("_cdist_forward")
def distances(
    rounding: Rounding, operator: Any, x: Tracked, y: Tracked, order: float, mode: Any = None
) -> Tracked:
    """A norm of differences; of order 2 also by abs(x)^2 + abs(y)^2 - 2 x y, as torch does.

    The latter is off by as much as the terms are, which may cancel; it is not less than 0.
    """
    value = operator(x.value, y.value, order, mode)
    if order not in (1, 2, math.inf):
        raise NoRuleError(f"distances of order {order}")
    norms = [torch.linalg.vector_norm(each.bound, order, -1) for each in (x, y)]
    spread = norms[0][..., :, None] + norms[1][..., None, :]
    terms = x.value.shape[-1]
    units = 2.0 if order == math.inf else terms + 3.0
    if order != 2:
        return rounding.rounded(value, spread, units=units)
    arithmetic = rounding.arithmetic
    a, b = rounding.operand(x), rounding.operand(y)
    lengths = [torch.linalg.vector_norm(each.most, 2, -1) for each in (a, b)]
    factor = 2.0 * (2.0 * terms + 3.0 + arithmetic.extra_terms) * arithmetic.accumulation
    if not rounding.stored_roundoff:
        factor += 4.0 * arithmetic.roundoff
    squares = factor * (lengths[0][..., :, None] + lengths[1][..., None, :]).square()
    low = (value.square() - squares).clamp_min(0.0).sqrt()
    high = (value.square() + squares).sqrt()
    lost = torch.maximum(value - low, high - value)
    return rounding.rounded(value, spread, units=units, absolute=lost)


@rule("_pdist_forward")
def distances_of_rows(rounding: Rounding, operator: Any, x: Tracked, order: float = 2) -> Tracked:
    """Of each row and those after it."""
    every = distances(rounding, torch.ops.aten._cdist_forward.default, x, x, order)
    rows = x.value.shape[0]
    above = torch.ones(rows, rows, dtype=torch.bool, device=x.value.device).triu(1)
    del operator
    return Tracked(every.value[above], every.bound[above])


@rule("logcumsumexp")
def logarithm_of_sums(rounding: Rounding, operator: Any, x: Tracked, dim: int) -> Tracked:
    """Each prefix in turn, in place of the sum the logarithm that is known, which is rounded.

    A step adds log(1 + exp(a - b)): it errs by its logarithm, which is absolutely accurate, by what
    rounding makes of a - b, and by storing the sum. It grows with each term, as `logsumexp` does.
    """
    grown = between(lambda each: operator(each, dim), x)
    if not x.value.numel():
        return grown
    steps = torch.ones_like(grown.value).cumsum(dim)
    most = grown.value.abs().nan_to_num(0.0, 0.0, 0.0) + grown.bound.nan_to_num(0.0, 0.0, 0.0)
    most = torch.maximum(most, x.most.nan_to_num(0.0, 0.0, 0.0)).cummax(dim).values
    # exp(-d) (4 + 2.4 d) is at most 4; the rounding of a - b is that of either.
    lost = 2.0**-21.4 + 8.0 * SINGLE + 3.0 * SINGLE * most
    return rounding.rounded(grown.value, grown.error, units=6.0, absolute=steps * lost)


@rule("amax", "amin")
def extreme(
    rounding: Rounding, operator: Any, x: Tracked, dim: Any = (), keepdim: bool = False
) -> Tracked:
    """Between the extremes of the least and of the largest values."""
    del rounding
    return between(lambda each: operator(each, dim, keepdim), x)


# Of what float32 holds.
_LARGEST = 2.0**127

_PICKING = """
    max min cummax cummin sort topk median kthvalue
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d
"""


@rule(*_PICKING.split())
def with_index(rounding: Rounding, operator: Any, x: Tracked, *args: Any, **kwargs: Any) -> Any:
    """An extreme, or the k-th of values in order, changes by no more than the values do.

    Where the values are not exact, their places are not known.
    """
    del rounding
    found = operator(x.value, *args, **kwargs)
    if isinstance(found, Tensor):
        return between(lambda each: operator(each, *args, **kwargs), x)
    values = between(lambda each: operator(each, *args, **kwargs)[0], x)
    return values, Tracked(found[1], _unknown(found[1], x))


def _unknown(index: Tensor, x: Tracked) -> Tensor | None:
    if x.error is None:
        return None
    return torch.full(index.shape, float("inf"), dtype=torch.float64, device=index.device)


@rule("argmax", "argmin")
def placed(
    rounding: Rounding, operator: Any, x: Tracked, dim: int | None = None, keepdim: bool = False
) -> Tracked:
    """The first of the extremes; where rounding decides, as far as any that may be one."""
    del rounding
    value = operator(x.value, dim, keepdim)
    if x.error is None:
        return Tracked(value)
    low, high = x.ends
    if operator.overloadpacket.__name__ == "argmin":
        low, high = -high, -low
    if dim is None:
        low, high = low.flatten(), high.flatten()
    along = 0 if dim is None else dim
    may_be = (high >= low.amax(along, keepdim=True)).double()
    count = may_be.shape[along]
    first = may_be.argmax(along, keepdim)
    last = count - 1 - may_be.flip(along).argmax(along, keepdim)
    return Tracked(
        value,
        torch.maximum(
            value - first.reshape(value.shape), last.reshape(value.shape) - value
        ).double(),
    )


@rule("any", "all")
def decided(rounding: Rounding, operator: Any, x: Tracked, *args: Any, **kwargs: Any) -> Tracked:
    """They grow with each truth value: uncertain where those decide that are."""
    del rounding
    value = operator(x.value, *args, **kwargs)
    if x.error is None:
        return Tracked(value)
    unsure, holds = x.error > 0, x.value.bool()
    least = operator(holds & ~unsure, *args, **kwargs)
    most = operator(holds | unsure, *args, **kwargs)
    return Tracked(value, (least != most).double())


@rule("linalg_vector_norm", "norm")
def normed(
    rounding: Rounding,
    operator: Any,
    x: Tracked,
    order: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """A sum of absolute values or of squares, and a root; the others are extremes."""
    del dtype
    order = 2 if order is None else order
    dims = _dims(x.value, dim)
    value = torch.linalg.vector_norm(x.value, order, dims, keepdim)
    spread = torch.linalg.vector_norm(x.bound, order, dims, keepdim)
    if order in (float("inf"), float("-inf")):
        return Tracked(value, None if x.error is None else x.bound.amax(dims, keepdim))
    if order not in (1, 2):
        return _normed_by_powers(rounding, operator, x, float(order), dims, keepdim)
    units = float(_count(x.value, dims) + 2) * rounding.arithmetic.accumulation / SINGLE
    # The triangle inequality carries the operands' errors.
    return rounding.rounded(value, spread, units=max(units, 2.0))


def _normed_by_powers(
    rounding: Rounding, operator: Any, x: Tracked, order: float, dims: list[int], keepdim: bool
) -> Tracked:
    """As it is written: powers, their sum, and its root."""
    if order <= 0:
        raise NoRuleError(f"{operator.overloadpacket.__name__} of order {order}")
    power = torch.ops.aten.pow.Tensor_Scalar
    powers = powered(rounding, power, Tracked(x.value.abs(), x.error), order)
    total = summed(rounding, torch.ops.aten.sum.dim_IntList, powers, dims, keepdim)
    # No sum of powers is less than nothing: what lies below 0 is not had.
    low = total.value.clamp_min(0.0) - total.bound
    root = powered(rounding, power, Tracked(total.value, total.error), 1.0 / order)
    if total.error is None:
        return root
    known = total.bound + (low.clamp_min(0.0) - low)
    reach = (total.value + known) ** (1.0 / order)
    spread = torch.maximum(reach - root.value, root.value - low.clamp_min(0.0) ** (1.0 / order))
    return rounding.rounded(root.value, spread, units=12.0)
