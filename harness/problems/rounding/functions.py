"""Functions of one or two numbers that are seldom used.

Their errors are those of the CUDA C++ Programming Guide, "Mathematical Functions", twice, and what
the usual formula loses where that loses more; in units of float32's roundoff, two to an ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.elementwise import of_intrinsics, spread_at_ends
from harness.problems.rounding.tracked import SINGLE, Rounding, Tracked, number, rule

_INFINITE = float("inf")


@rule("cosh")
def catenary(rounding: Rounding, operator: Any, x: Tracked) -> Tracked:
    """By exponentials: `__expf` has 2 + floor(abs(1.173 x)) ulps."""
    value = operator(x.value)
    units = 6.0 + 2.4 * x.most.clamp_max(1000.0)
    return rounding.rounded(value, spread_at_ends(operator, x, value), units=units)


@rule("tan")
def tangent(rounding: Rounding, operator: Any, x: Tracked) -> Tracked:
    """By `__sinf` and `__cosf`, which are absolutely accurate; infinite where a pole is near."""
    value = operator(x.value)
    spread = spread_at_ends(operator, x, value)
    off = of_intrinsics(x.value)
    secant = (1.0 + value.square()).sqrt()
    lost = torch.where(off * secant < 0.25, 2.0 * off * secant * (1.0 + value.abs()), _INFINITE)
    if spread is not None:
        low, high = ((end / math.pi + 0.5).floor() for end in x.ends)
        spread = torch.where(low == high, spread, _INFINITE)
    return rounding.rounded(value, spread, units=8.0, absolute=lost)


def _distance_of_poles(x: Tensor) -> Tensor:
    """The absolute sine of pi x, which is small near a pole."""
    return ((x - x.round()) * math.pi).sin().abs()


def _between_poles(
    function: Callable[[Tensor], Tensor], x: Tracked, value: Tensor
) -> Tensor | None:
    """As `spread_at_ends`; nothing is known where the interval has a pole, at 0, -1 and so on."""
    spread = spread_at_ends(function, x, value)
    if spread is None:
        return None
    low, high = (end.clamp_max(1.0).ceil() for end in x.ends)
    return torch.where((low == high) | (x.error == 0), spread, _INFINITE)


@rule("lgamma")
def logarithm_of_gamma(rounding: Rounding, operator: Any, x: Tracked) -> Tracked:
    """Convex between its poles; near its zeros, and by reflection, only absolutely accurate.

    log(pi / abs(sin(pi x))) - lgamma(1 - x), where x is negative, is off by the sine's error.
    """
    value = operator(x.value)
    mirrored = torch.where(x.value < 0, operator(1.0 - x.value).abs(), 0.0)
    # A sine's error is a relative one of the quotient, and so an absolute one of its logarithm.
    of_sine = torch.where(x.value < 0, 2.0**-20.5 / _distance_of_poles(x.value), 0.0)
    lost = 16.0 * SINGLE * (1.0 + mirrored) + 2.0 * of_sine
    return rounding.rounded(value, _between_poles(operator, x, value), units=16.0, absolute=lost)


@rule("digamma")
def derivative_of_that(rounding: Rounding, operator: Any, x: Tracked) -> Tracked:
    """It grows between its poles; a recurrence up to 10, a series, and pi / tan(pi x) to reflect.

    The recurrence has ten terms at most, of 1 / x and less, and the series log(10).
    """
    value = operator(x.value)
    sine = _distance_of_poles(x.value)
    of_tangent = 16.0 * SINGLE * math.pi * (1.0 + x.value.abs()) / sine.square()
    lost = 16.0 * SINGLE * (8.0 + value.abs()) + torch.where(x.value < 0, of_tangent, 0.0)
    return rounding.rounded(value, _between_poles(operator, x, value), units=16.0, absolute=lost)


@rule("atan2")
def angle(rounding: Rounding, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Of what is away from 0 and from the negative axis, farthest off at a corner; 3 ulps."""
    value = operator(a.value, b.value)
    spread = _at_corners(operator, a, b, value)
    if spread is not None:
        (below, above), (left, _) = a.ends, b.ends
        is_beside = (below <= 0) & (above >= 0) & (left <= 0) & (a.bound + b.bound > 0)
        spread = torch.where(is_beside, value.abs() + math.pi, spread)
    return rounding.rounded(value, spread, units=12.0)


@rule("hypot")
def hypotenuse(rounding: Rounding, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Convex; by a root of a sum of squares, which may underflow."""
    value = operator(a.value, b.value)
    spread = _at_corners(operator, a, b, value)
    return rounding.rounded(value, spread, units=8.0, absolute=2.0**-62)


def _at_corners(operator: Any, a: Tracked, b: Tracked, value: Tensor) -> Tensor | None:
    """How far a function of two gets that is farthest off at a corner."""
    if a.error is None and b.error is None:
        return None
    corners = [operator(x, y) for x in a.ends for y in b.ends]
    return torch.stack([(each - value).abs() for each in corners]).amax(0)


@rule("signbit")
def signed(rounding: Rounding, operator: Any, x: Tracked) -> Tracked:
    """Uncertain where the interval has 0 in it."""
    del rounding
    value = operator(x.value)
    if x.error is None:
        return Tracked(value)
    unsure = (x.error > 0) & (x.value.abs() <= x.error)
    return Tracked(value, unsure.double())


@rule("searchsorted")
def searched(rounding: Rounding, operator: Any, among: Tracked, x: Any, **how: Any) -> Tracked:
    """It grows with what is searched, and falls with what is searched in."""
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
def leaking(
    rounding: Rounding,
    operator: Any,
    x: Tracked,
    noise: Tracked,
    lower: float = 0.125,
    upper: float = 1.0 / 3.0,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """A leaky relu of the mean slope; it is random in training, which no reference may be."""
    del operator, generator
    slope = number((lower + upper) / 2.0)
    factor = torch.where(x.value > 0, 1.0, slope.value)
    value = x.value * factor
    spread = None if x.error is None else x.error * max(1.0, float(slope.most))
    assert not training  # noqa: S101 - refused when the reference is read
    lost = torch.where(x.value > 0, 0.0, x.most * (slope.bound + SINGLE))
    return rounding.rounded(value, spread, units=1.0, absolute=lost), noise
