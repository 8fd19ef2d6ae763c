"""Error-bound rules of sums of products: matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import add, mul
from harness.problems.rounding.tracked import (
    RoundingErrors,
    Terms,
    Tracked,
    complex_rule,
    is_whole,
    rule,
)

Bilinear = Callable[[Tensor, Tensor], Tensor]
# Error of a convolution by transforms, in roundings of the largest sum nearby. Tiles of 8 by 8 lose
# about this: a hundred times as much as sums do, and far less than rounding operands to TF32 does.
_OF_TRANSFORMS = 128.0


def _joined(
    rounding: RoundingErrors, function: Bilinear, a: Tracked, b: Tracked, terms: Tensor | float
) -> Tracked:
    """Bound the error of a bilinear function, whose results are sums of products.

    The bound is that of Higham, section 3.1, plus the effect of the operands' own errors. This
    effect is at most the difference between two results of `function`. Its arguments are the
    largest possible absolute values of the operands for one result, and the exact ones for the
    other.

    Args:
        rounding: The arithmetic.
        function: The function.
        a: The function's first operand.
        b: The function's second operand.
        terms: Number of terms in each sum.
    """
    value = function(a.value, b.value)
    magnitude = function(a.value.abs(), b.value.abs())
    # Small integers stay exact in the tightest class alone: the others may round the operands.
    if not rounding.arithmetic.roundoff and is_whole(magnitude, a, b):
        return Tracked(value, terms=Terms(torch.zeros_like(magnitude), magnitude, terms))
    x, y = rounding.operand(a), rounding.operand(b)
    most = magnitude if x.error is None and y.error is None else function(x.most, y.most)
    return rounding.summed(value, most - magnitude, most, terms)


@rule("mm", "bmm", "mv", "dot", "matmul")
@complex_rule("mm", "bmm", "mv")
def matmul(rounding: RoundingErrors, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Bound the error of a matrix product, whose sums have as many terms as the inner dimension.

    A complex sum of n products has an error of sqrt(2) gamma_(n + 2) (Higham, section 3.6). It is
    bounded as a sum of 2 n + 2 terms.
    """
    terms = a.value.shape[-1]
    return _joined(rounding, operator, a, b, 2.0 * terms + 2.0 if a.value.is_complex() else terms)


@rule("addbmm")
def addbmm(
    rounding: RoundingErrors, operator: Any, c: Tracked, a: Tracked, b: Tracked, **factors: float
) -> Tracked:
    """Bound the error of `addbmm` as that of one matrix product.

    The inner dimension of this product joins the inner dimensions of all matrices in the batch.
    """
    del operator
    inner = a.value.shape[0] * a.value.shape[2]

    def beside(part: Tensor) -> Tensor:
        return part.transpose(0, 1).reshape(-1, inner)

    def below(part: Tensor) -> Tensor:
        return part.reshape(inner, -1)

    left = Tracked(beside(a.value), None if a.error is None else beside(a.error))
    right = Tracked(below(b.value), None if b.error is None else below(b.error))
    product = torch.ops.aten.addmm.default
    return addmm(rounding, product, c, left, right, **factors)


@rule("_trilinear")
def trilinear(
    rounding: RoundingErrors, operator: Any, a: Tracked, b: Tracked, c: Tracked, *how: Any
) -> Tracked:
    """Bound the error of sums of products of three factors, in any order.

    A kernel may multiply two of the factors first, and store their product.
    """
    value = operator(a.value, b.value, c.value, *how)
    most = operator(*(rounding.operand(each).most for each in (a, b, c)), *how)
    # Ones count the terms of each result.
    ones = (torch.ones_like(each.value) for each in (a, b, c))
    terms = operator(*ones, *how) + 1.0
    spread = most - operator(a.value.abs(), b.value.abs(), c.value.abs(), *how)
    return rounding.summed(value, spread + rounding.arithmetic.roundoff * most, most, terms)


@rule("addmm", "baddbmm", "addmv")
def addmm(
    rounding: RoundingErrors,
    operator: Any,
    c: Tracked,
    a: Tracked,
    b: Tracked,
    beta: float = 1,
    alpha: float = 1,
) -> Tracked:
    """Bound the error of a scaled matrix product that is added to another operand."""
    aten = torch.ops.aten
    product = {"addmm": aten.mm, "baddbmm": aten.bmm, "addmv": aten.mv}
    name = operator.overloadpacket.__name__
    result = matmul(rounding, product[name].default, a, b)
    if alpha != 1:
        result = mul(rounding, aten.mul.Tensor, result, alpha)
    if beta == 0:
        return result
    other = c if beta == 1 else mul(rounding, aten.mul.Tensor, c, beta)
    return add(rounding, aten.add.Tensor, result, other)


def _by_transforms(
    rounding: RoundingErrors, convolution: Bilinear, x: Tracked, weight: Tracked, result: Tracked
) -> Tracked:
    """Widen a convolution's bound by the error of Winograd's algorithm and of Fourier transforms.

    For fp32, the bound is not widened. The error of these algorithms depends on the largest sum
    among nearby outputs, not on the products that an output sums. Sources: Barabasz, Anderson,
    Soodhalter and Gregg, ACM TOMS 46 (2020), 4; Higham, theorem 24.2.
    """
    arithmetic = rounding.arithmetic
    if not arithmetic.roundoff:
        return result
    # The largest sum of each row and output channel stands for those nearby.
    near = convolution(x.most, weight.most).flatten(2).amax(2)
    lost = _OF_TRANSFORMS * arithmetic.accumulation * near
    beside = lost.view(*near.shape, *(1,) * (x.value.dim() - 2))
    return replace(result, error=result.bound + beside)


@rule("convolution")
def convolution(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    weight: Tracked,
    bias: Tracked | None,
    *how: Any,
) -> Tracked:
    """Bound the error of a convolution, in which each output sums products, and a bias if given."""

    def convolution(a: Tensor, b: Tensor) -> Tensor:
        result: Tensor = operator(a, b, None, *how)
        return result

    # Ones on ones count the terms of each output, which are fewer at the edges.
    ones = torch.ones_like(x.value[:1]), torch.ones_like(weight.value)
    result = _joined(rounding, convolution, x, weight, convolution(*ones))
    result = _by_transforms(rounding, convolution, x, weight, result)
    if bias is None:
        return result
    shape = (-1, *(1,) * (x.value.dim() - 2))
    error = None if bias.error is None else bias.error.view(shape)
    return add(rounding, torch.ops.aten.add.Tensor, result, Tracked(bias.value.view(shape), error))
