"""Error-bound rules of operators that reduce or scan tensors along dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import power_of
from harness.problems.rounding.tracked import (
    SINGLE,
    NoRuleError,
    RoundingErrors,
    Terms,
    Tracked,
    bound_monotone,
    complex_rule,
    is_whole,
    require_exact,
    rule,
)


def _dims(x: Tensor, dim: Any) -> list[int]:
    """Return the dimensions that `dim` names, counted from 0; all dimensions if it names none."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.dim()))
    return [d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim)]


def _count(x: Tensor, dims: Sequence[int]) -> int:
    """Return the number of elements that a reduction over `dims` combines into one."""
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


@rule("sum")
@complex_rule("sum")
def sum_of(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """Bound the error of a sum, which a kernel may compute in any order."""
    del operator
    dims = _dims(x.value, dim)
    if not (x.value.is_floating_point() or x.value.is_complex()):
        # A sum of integers, or a count of truth values, is off by the sum of its terms' errors.
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
def mean(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """Bound the error of a mean, computed as a sum times 1 / n or as a running mean.

    A running mean (Welford, 1962) divides at each step. It is not exact even where the sum is
    exact, for example for small integers.
    """
    dims = _dims(x.value, dim)
    count = _count(x.value, dims)
    total = sum_of(rounding, operator, x, dim, keepdim, dtype)
    value = x.value.mean(dims, keepdim)
    lost = total.bound / count
    # An exact sum says nothing of Welford's mean, which has as many roundings as terms.
    if total.error is None:
        terms = count + rounding.arithmetic.extra_terms
        lost = terms * rounding.arithmetic.accumulation * x.most.mean(dims, keepdim)
    return rounding.rounded(value, lost, units=3.0)


@rule("cumsum")
def cumsum(
    rounding: RoundingErrors, operator: Any, x: Tracked, dim: int, dtype: Any = None
) -> Tracked:
    """Bound the error of a running sum, each prefix of which may be summed in any order.

    Raises:
        NoRuleError: The elements are integers that depend on rounding.
    """
    if not x.value.is_floating_point():
        require_exact(operator, x)
        return Tracked(operator(x.value, dim, dtype=dtype))
    value, most = x.value.cumsum(dim), x.most.cumsum(dim)
    if is_whole(most, x):
        return Tracked(value)
    terms = torch.ones_like(value).cumsum(dim) - 1
    # In an exclusive or reversed scan, a prefix may be the difference of two others. Both of those
    # are pairwise sums (Higham, (4.4)).
    whole = most.amax(dim, keepdim=True) if most.numel() else most
    depth = math.log2(value.numel() + 2)
    lost = 2.0 * (depth + 1.0) * SINGLE * whole
    return rounding.summed(value, x.bound.cumsum(dim) + lost, most, terms + depth)


@rule("cumprod", "prod")
def prod(rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any, **kwargs: Any) -> Tracked:
    """Bound the error of a product of elements, or of a running product.

    Each factor adds one rounding (Higham, lemma 3.1). The factors may be taken in any order. The
    bound is infinite where a product of some factors may overflow. To allow for underflow, the
    smallest number times the largest product of the other factors is added.
    """
    kwargs.pop("dtype", None)
    value = operator(x.value, *args, **kwargs)
    spread = None if x.error is None else operator(x.most, *args, **kwargs) - value.abs()
    is_running = operator.overloadpacket.__name__ == "cumprod"
    count = torch.ones_like(x.value)
    if is_running:
        units = count.cumsum(args[0])
    else:
        units = torch.full_like(value, x.value.numel() / max(value.numel(), 1), dtype=torch.float64)
    # The largest product of any of the factors, to which those below 1 do not contribute.
    growing = operator(x.most.clamp_min(1.0), *args, **kwargs)
    lost = torch.where(growing < _LARGEST, growing * rounding.arithmetic.smallest, torch.inf)
    return rounding.rounded(value, spread, units=units, absolute=lost)


@rule("var", "var_mean", "std")
def var(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    dim: Any = None,
    *args: Any,
    correction: float | None = 1,
    keepdim: bool = False,
) -> Any:
    """Bound the error of a variance or standard deviation, computed in two passes or in one.

    Two passes take the mean of squared differences from the mean. One pass subtracts the squared
    mean from the mean of squares; its error is gamma_n times the mean of squares (Higham, section
    1.9).

    Raises:
        NoRuleError: The overload has arguments without names.
    """
    if args:
        raise NoRuleError(f"{operator.overloadpacket.__name__} with unnamed arguments")
    name = operator.overloadpacket.__name__
    dims = _dims(x.value, dim)
    count = _count(x.value, dims)
    freedom = max(count - (1 if correction is None else correction), 0)
    around = (x.value - x.value.mean(dims, keepdim=True)).abs()
    value = around.square().sum(dims, keepdim) / freedom
    reach = x.bound + x.bound.mean(dims, keepdim=True)
    spread = ((2 * around + reach) * reach).sum(dims, keepdim) / freedom
    squares = x.most.square().sum(dims, keepdim) / freedom
    gamma = (count + 4) * rounding.arithmetic.accumulation
    lost = 3 * gamma * squares
    # Equal integers of which float32 sums the squares have a variance of exactly 0.
    if x.error is None and not bool(around.any()) and is_whole(squares * freedom, x):
        lost = torch.zeros_like(lost)
    variance = rounding.rounded(value, spread + lost, units=3.0)
    if name == "var":
        return variance
    if name == "std":
        root = value.sqrt()
        # A sum of squares is not negative, so the lower end stops at 0.
        low = (value - variance.bound).clamp_min(0).sqrt()
        high = (value + variance.bound).sqrt()
        return rounding.rounded(root, torch.maximum(root - low, high - root), units=4.0)
    return variance, mean(rounding, operator, x, dim, keepdim)


@rule("logsumexp")
def logsumexp(
    rounding: RoundingErrors, operator: Any, x: Tracked, dim: Any, keepdim: bool = False
) -> Tracked:
    """Bound the error of a logsumexp.

    The result grows with each operand, and moves by at most the largest operand error. A kernel
    sums exp(x - m), where m is the largest operand, or 0. Each term has the error of the
    exponential, and the error of x - m if a kernel stores that difference. The sum is at least as
    large as for the smallest possible operands, and at least 1 if m is the largest operand. A
    relative error of the sum is an absolute error of its logarithm.
    """
    dims = _dims(x.value, dim)
    grown = bound_monotone(lambda each: operator(each, dims, keepdim), x)
    if not x.value.numel():
        return grown
    low, high = x.ends
    stored = 2.0 * rounding.stored_roundoff
    apart = (low.amax(dims, keepdim=True) - high).nan_to_num(torch.inf).clamp_min(0.0)
    weight = (-apart).exp()
    far = (x.most + x.most.amax(dims, keepdim=True)).nan_to_num(0.0, 0.0, 0.0)
    # __expf: as in elementwise.py.
    exponentials = weight * (4.0 + 2.4 * far) * SINGLE
    # exp(-d) d is largest for d = 1, which d may be unless it is more for certain.
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
def cdist(
    rounding: RoundingErrors, operator: Any, x: Tracked, y: Tracked, order: float, mode: Any = None
) -> Tracked:
    """Bound the error of distances between rows, which are norms of differences.

    Distances of order 2 may be computed as the root of abs(x)^2 + abs(y)^2 - 2 x y, as torch does.
    These terms may cancel, so the error depends on the terms' size. The result is not negative.

    Raises:
        NoRuleError: The order is not 1, 2 or infinity.
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
    # The error of the way by a matrix product is added to that of the norm.
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
def pdist(rounding: RoundingErrors, operator: Any, x: Tracked, order: float = 2) -> Tracked:
    """Bound the error of the distances between each row and all later rows."""
    every = cdist(rounding, torch.ops.aten._cdist_forward.default, x, x, order)
    rows = x.value.shape[0]
    above = torch.ones(rows, rows, dtype=torch.bool, device=x.value.device).triu(1)
    del operator
    return Tracked(every.value[above], every.bound[above])


@rule("logcumsumexp")
def logcumsumexp(rounding: RoundingErrors, operator: Any, x: Tracked, dim: int) -> Tracked:
    """Bound the error of a running logsumexp, computed step by step from rounded results.

    A step adds log(1 + exp(a - b)). Its errors are those of the logarithm (an absolute bound), of
    rounding a - b, and of storing the sum. The result grows with each operand, as in `logsumexp`.
    """
    grown = bound_monotone(lambda each: operator(each, dim), x)
    if not x.value.numel():
        return grown
    steps = torch.ones_like(grown.value).cumsum(dim)
    most = grown.value.abs().nan_to_num(0.0, 0.0, 0.0) + grown.bound.nan_to_num(0.0, 0.0, 0.0)
    most = torch.maximum(most, x.most.nan_to_num(0.0, 0.0, 0.0)).cummax(dim).values
    # exp(-d) (4 + 2.4 d) is at most 4; the rounding of a - b is that of either.
    lost = 2.0**-21.4 + 8.0 * SINGLE + 3.0 * SINGLE * most
    return rounding.rounded(grown.value, grown.error, units=6.0, absolute=steps * lost)


@rule("amax", "amin")
def amax_or_amin(
    rounding: RoundingErrors, operator: Any, x: Tracked, dim: Any = (), keepdim: bool = False
) -> Tracked:
    """Bound the error of a largest or smallest element, which never falls when an element grows."""
    del rounding
    return bound_monotone(lambda each: operator(each, dim, keepdim), x)


# A power of two just below float32's largest number.
_LARGEST = 2.0**127

_PICKING = """
    max min cummax cummin sort topk median kthvalue
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d
"""


@rule(*_PICKING.split())
def with_index(
    rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any, **kwargs: Any
) -> Any:
    """Bound the errors of sorted, extreme or k-th elements, and of their indices.

    An element changes by no more than the largest error of an operand. Its index has an infinite
    error if the operands are not exact.
    """
    del rounding
    found = operator(x.value, *args, **kwargs)
    if isinstance(found, Tensor):
        return bound_monotone(lambda each: operator(each, *args, **kwargs), x)
    values = bound_monotone(lambda each: operator(each, *args, **kwargs)[0], x)
    return values, Tracked(found[1], _unknown(found[1], x))


def _unknown(index: Tensor, x: Tracked) -> Tensor | None:
    """Return infinite errors in the shape of `index`, or None if `x` is exact."""
    if x.error is None:
        return None
    return torch.full(index.shape, float("inf"), dtype=torch.float64, device=index.device)


@rule("argmax", "argmin")
def argmax_or_argmin(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tracked:
    """Bound the error of the index of the first largest or smallest element.

    Where rounding decides, the index may be that of any element whose interval reaches the extreme.
    """
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
    # Only an element whose upper end reaches the largest lower end can be the extreme.
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
def any_or_all(
    rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any, **kwargs: Any
) -> Tracked:
    """Bound the error of `any` or `all`.

    The result is uncertain where it depends on uncertain elements.
    """
    del rounding
    value = operator(x.value, *args, **kwargs)
    if x.error is None:
        return Tracked(value)
    unsure, holds = x.error > 0, x.value.bool()
    least = operator(holds & ~unsure, *args, **kwargs)
    most = operator(holds | unsure, *args, **kwargs)
    return Tracked(value, (least != most).double())


@rule("linalg_vector_norm", "norm")
def vector_norm(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    order: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tracked:
    """Bound the error of a vector norm of order 1, 2 or infinity.

    The norm is a sum of absolute values, the root of a sum of squares, or an extreme. Other orders
    are left to `_normed_by_powers`.
    """
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
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    order: float,
    dims: list[int],
    keepdim: bool,
) -> Tracked:
    """Bound the error of a norm of any positive order, computed as the root of a sum of powers.

    Raises:
        NoRuleError: The order is not positive.
    """
    if order <= 0:
        raise NoRuleError(f"{operator.overloadpacket.__name__} of order {order}")
    power = torch.ops.aten.pow.Tensor_Scalar
    powers = power_of(rounding, power, Tracked(x.value.abs(), x.error), order)
    total = sum_of(rounding, torch.ops.aten.sum.dim_IntList, powers, dims, keepdim)
    # A sum of powers is not negative, so the lower end stops at 0. What is cut off there is added
    # at the other end.
    low = total.value.clamp_min(0.0) - total.bound
    root = power_of(rounding, power, Tracked(total.value, total.error), 1.0 / order)
    if total.error is None:
        return root
    known = total.bound + (low.clamp_min(0.0) - low)
    reach = (total.value + known) ** (1.0 / order)
    spread = torch.maximum(reach - root.value, root.value - low.clamp_min(0.0) ** (1.0 / order))
    return rounding.rounded(root.value, spread, units=12.0)
