"""Error-bound rules of functions of one or two numbers that are seldom used.

The rules allow twice the errors in the CUDA C++ Programming Guide, "Mathematical Functions". Where
the usual formula of a function has a larger error, they allow that error. Relative errors are in
units of float32's roundoff; one ulp is two units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import of_intrinsics, spread_at_ends
from harness.problems.rounding.tracked import SINGLE, RoundingErrors, Tracked, number, rule

_INFINITE = float("inf")


@rule("cosh")
def cosh(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a cosh, computed from exponentials.

    The intrinsic `__expf` has an error of 2 + floor(abs(1.173 x)) ulps.
    """
    value = operator(x.value)
    units = 6.0 + 2.4 * x.most.clamp_max(1000.0)
    return rounding.rounded(value, spread_at_ends(operator, x, value), units=units)


@rule("tan")
def tan(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a tangent, computed as a quotient of `__sinf` and `__cosf`.

    These intrinsics have absolute error bounds. So the bound of the tangent is infinite near a
    pole.
    """
    value = operator(x.value)
    spread = spread_at_ends(operator, x, value)
    off = of_intrinsics(x.value)
    secant = (1.0 + value.square()).sqrt()
    lost = torch.where(off * secant < 0.25, 2.0 * off * secant * (1.0 + value.abs()), _INFINITE)
    if spread is not None:
        # Index of the tangent's branch at each end.
        low, high = ((end / math.pi + 0.5).floor() for end in x.ends)
        spread = torch.where(low == high, spread, _INFINITE)
    return rounding.rounded(value, spread, units=8.0, absolute=lost)


def _distance_of_poles(x: Tensor) -> Tensor:
    """Return abs(sin(pi x)), which is small near a pole at an integer."""
    return ((x - x.round()) * math.pi).sin().abs()


def _between_poles(
    function: Callable[[Tensor], Tensor], x: Tracked, value: Tensor
) -> Tensor | None:
    """Return how far the operand's error can move a function with poles at 0, -1, -2 and so on.

    The distance is infinite where the operand's interval contains a pole, and None for an exact
    operand.
    """
    spread = spread_at_ends(function, x, value)
    if spread is None:
        return None
    # Between two poles both ends have the same ceiling; above 0 there is no pole.
    low, high = (end.clamp_max(1.0).ceil() for end in x.ends)
    return torch.where((low == high) | (x.error == 0), spread, _INFINITE)


@rule("lgamma")
def lgamma(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of lgamma, which is convex between its poles.

    Near its zeros, and where it is computed by reflection, lgamma has an absolute error bound only.
    Reflection is for a negative x: a kernel computes log(pi / abs(sin(pi x))) - lgamma(1 - x). The
    sine's relative error is then an absolute error of the logarithm.
    """
    value = operator(x.value)
    mirrored = torch.where(x.value < 0, operator(1.0 - x.value).abs(), 0.0)
    # The sine's relative error is that of the quotient, and so the logarithm's absolute error.
    of_sine = torch.where(x.value < 0, 2.0**-20.5 / _distance_of_poles(x.value), 0.0)
    lost = 16.0 * SINGLE * (1.0 + mirrored) + 2.0 * of_sine
    return rounding.rounded(value, _between_poles(operator, x, value), units=16.0, absolute=lost)


@rule("digamma")
def digamma(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of digamma, which grows between its poles.

    A kernel computes it by a recurrence up to 10, and by a series above 10. For a negative x, it
    uses reflection with pi / tan(pi x). The recurrence adds at most ten terms, each at most 1 / x,
    to the series at 10, which is about log(10).
    """
    value = operator(x.value)
    sine = _distance_of_poles(x.value)
    of_tangent = 16.0 * SINGLE * math.pi * (1.0 + x.value.abs()) / sine.square()
    lost = 16.0 * SINGLE * (8.0 + value.abs()) + torch.where(x.value < 0, of_tangent, 0.0)
    return rounding.rounded(value, _between_poles(operator, x, value), units=16.0, absolute=lost)


@rule("atan2")
def atan2(rounding: RoundingErrors, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Bound the error of atan2; computing the function adds 3 ulps.

    Away from 0 and from the negative axis, the error is largest at a corner of the operands'
    intervals. Across the negative axis, the result jumps by 2 pi.
    """
    value = operator(a.value, b.value)
    spread = _at_corners(operator, a, b, value)
    if spread is not None:
        (below, above), (left, _) = a.ends, b.ends
        is_beside = (below <= 0) & (above >= 0) & (left <= 0) & (a.bound + b.bound > 0)
        spread = torch.where(is_beside, value.abs() + math.pi, spread)
    return rounding.rounded(value, spread, units=12.0)


@rule("hypot")
def hypot(rounding: RoundingErrors, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Bound the error of hypot, which is convex.

    A kernel computes it as the root of a sum of squares, which may underflow.
    """
    value = operator(a.value, b.value)
    spread = _at_corners(operator, a, b, value)
    return rounding.rounded(value, spread, units=8.0, absolute=2.0**-62)


def _at_corners(operator: Any, a: Tracked, b: Tracked, value: Tensor) -> Tensor | None:
    """Return how far the operands' errors can move a function's result; None if both are exact.

    The distance is right only for a function that moves farthest at a corner of the operands'
    intervals.
    """
    if a.error is None and b.error is None:
        return None
    corners = [operator(x, y) for x in a.ends for y in b.ends]
    return torch.stack([(each - value).abs() for each in corners]).amax(0)


@rule("signbit")
def signbit(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of signbit, which is uncertain where the operand's interval contains 0."""
    del rounding
    value = operator(x.value)
    if x.error is None:
        return Tracked(value)
    unsure = (x.error > 0) & (x.value.abs() <= x.error)
    return Tracked(value, unsure.double())


@rule("searchsorted")
def searchsorted(
    rounding: RoundingErrors, operator: Any, among: Tracked, x: Any, **how: Any
) -> Tracked:
    """Bound the error of searchsorted, which returns indices.

    An index grows with the number `x` that is searched for, and falls when the sorted numbers grow.
    """
    del rounding
    asked = number(x)
    value = operator(among.value, asked.value, **how)
    if among.error is None and asked.error is None:
        return Tracked(value)
    (low, high), (least, most) = asked.ends, among.ends
    first = operator(most.contiguous(), low.contiguous(), **how)
    last = operator(least.contiguous(), high.contiguous(), **how)
    return Tracked(value, torch.maximum(value - first, last - value).double())


@rule("rrelu_with_noise_functional")
def rrelu(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    noise: Tracked,
    lower: float = 0.125,
    upper: float = 1.0 / 3.0,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """Bound the error of a randomised leaky ReLU in evaluation mode.

    In evaluation mode, the slope is the mean of `lower` and `upper`. In training mode the slope is
    random, and a reference that draws random numbers is refused.
    """
    del operator, generator
    slope = number((lower + upper) / 2.0)
    factor = torch.where(x.value > 0, 1.0, slope.value)
    value = x.value * factor
    spread = None if x.error is None else x.error * max(1.0, float(slope.most))
    assert not training  # noqa: S101 - refused when the reference is read
    lost = torch.where(x.value > 0, 0.0, x.most * (slope.bound + SINGLE))
    return rounding.rounded(value, spread, units=1.0, absolute=lost), noise
