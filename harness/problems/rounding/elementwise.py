"""Error-bound rules of operators that compute each element independently of the others.

The errors of functions are those in the CUDA C++ Programming Guide, "Mathematical Functions". The
bounds also admit the intrinsics that -use_fast_math calls instead. Relative errors are in units of
float32's roundoff; one ulp is two units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.problems.rounding.tracked import (
    SINGLE,
    RoundingErrors,
    Tracked,
    bound_monotone,
    is_whole,
    number,
    require_exact,
    rule,
)

_INFINITE = float("inf")


def _none(*operands: Tracked) -> bool:
    """Return whether all operands are exact, so that none has an error."""
    return all(each.error is None for each in operands)


@rule("add", "sub", "rsub")
def add(rounding: RoundingErrors, operator: Any, a: Any, b: Any, alpha: float = 1) -> Tracked:
    """Bound the error of a sum or a difference, which is rounded correctly (Higham, (2.4))."""
    x, y = number(a), number(b)
    name = operator.overloadpacket.__name__
    value = _apply(operator, a, b, alpha)
    error = None
    if not _none(x, y):
        left, right = (abs(alpha), 1.0) if name == "rsub" else (1.0, abs(alpha))
        error = (left * x.bound + right * y.bound).expand(value.shape)
    if not value.is_floating_point():
        return Tracked(value, error)
    result = rounding.rounded(value, error)
    for one, other in ((x, y), (y, x)) if alpha == 1 else ():
        result = _from_the_start(rounding, result, one, other)
    return result


def _from_the_start(
    rounding: RoundingErrors, result: Tracked, one: Tracked, other: Tracked
) -> Tracked:
    """Widen the bound of `one` + `other`, where `one` is a sum, to that of a sum in any order.

    A kernel may start its sum from the addend `other`, for example from a bias.
    """
    if one.terms is None:
        return result
    terms = one.terms.with_one(other)
    if is_whole(terms.most, one, other):
        return replace(result, terms=terms)
    whole = rounding.summed(result.value, terms.spread, terms.most, terms.count)
    # An infinite addend, such as a mask's, makes the sum infinite in any order.
    wider = torch.maximum(result.bound, whole.bound).where(~result.value.isinf(), result.bound)
    return replace(whole, error=wider)


def _apply(operator: Any, a: Any, b: Any, alpha: float) -> Tensor:
    """Call an operator on plain values; leave `alpha` out if it is 1, as some overloads lack it."""
    kwargs = {} if alpha == 1 else {"alpha": alpha}
    result: Tensor = operator(_value(a), _value(b), **kwargs)
    return result


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Tracked) else operand


@rule("mul")
def mul(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound the error of a product, which is rounded correctly (Higham, (2.4))."""
    x, y = number(a), number(b)
    value = operator(_value(a), _value(b))
    error = None
    if not _none(x, y):
        # |x'y' - xy| <= (|x| + dx) (|y| + dy) - |x| |y|.
        error = x.most * y.most - x.value.double().abs() * y.value.double().abs()
    if not value.is_floating_point():
        return Tracked(value, error)
    return rounding.rounded(value, error)


@rule("div")
def div(
    rounding: RoundingErrors, operator: Any, a: Any, b: Any, rounding_mode: str | None = None
) -> Tracked:
    """Bound the error of a quotient, which may be off by two ulps, as with `__fdividef`."""
    x, y = number(a), number(b)
    if rounding_mode is not None:
        return _divided_whole(operator, a, b, rounding_mode)
    value = operator(_value(a), _value(b))
    spread = None
    if not _none(x, y):
        # |x'/y' - x/y| <= (dx + |x/y| dy) / (|y| - dy); anything where the divisor may be 0.
        room = y.value.abs() - y.bound
        spread = (x.bound + value.abs() * y.bound) / room
        spread = torch.where(room > 0, spread, _INFINITE)
    return rounding.rounded(value, spread, units=4.0)


def _divided_whole(operator: Any, a: Any, b: Any, rounding_mode: str) -> Tracked:
    """Bound the error of a quotient that is rounded to an integer.

    Raises:
        NoRuleError: The operands are integers, such as indices, and depend on rounding.
    """
    x, y = number(a), number(b)
    value = operator(_value(a), _value(b), rounding_mode=rounding_mode)
    if not value.is_floating_point():
        require_exact(operator, x, y)
        return Tracked(value)
    turns = _turns(torch.floor if rounding_mode == "floor" else torch.trunc, x, y)
    return Tracked(value, turns if bool(turns.any()) else None)


def _turns(step: Callable[[Tensor], Tensor], x: Tracked, y: Tracked) -> Tensor:
    """Return how far a quotient that is rounded to an integer may be from the exact integer.

    The result is 0 where an exact dividend is a multiple of an exact divisor.

    Args:
        step: Rounds a quotient to an integer.
        x: The dividend.
        y: The divisor.
    """
    # The bound of the quotient, as in `divided`: a kernel may round it before the step.
    quotient = x.value.double() / y.value.double()
    apart = y.value.double().abs() - y.bound
    reach = torch.where(apart > 0, (x.bound + quotient.abs() * y.bound) / apart, _INFINITE)
    is_sure = (quotient == quotient.round()) & (reach == 0)
    reach = torch.where(is_sure, 0.0, reach + 4.0 * SINGLE * quotient.abs())
    least, most = step(quotient - reach), step(quotient + reach)
    return torch.maximum(most - step(quotient), step(quotient) - least)


@rule("pow")
def power_of(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound the error of a power with a constant exponent.

    A kernel may compute it by repeated products if the exponent is an integer from 0 to 8, else as
    exp(b log a).
    """
    if not isinstance(a, Tracked) or isinstance(b, Tracked):
        return _power_of_tensors(rounding, operator, a, b)
    value = operator(a.value, b)
    if not value.is_floating_point():
        return Tracked(value, None if a.error is None else a.error * _INFINITE)
    if float(b).is_integer() and 0 <= b <= 8:
        spread = None if a.error is None else a.most**b - a.value.abs() ** b
        return rounding.rounded(value, spread, units=float(max(b - 1, 0)))
    spread = spread_at_ends(lambda x: operator(x, b), a, value)
    logarithm = a.value.abs().clamp_min(1e-300).log().abs()
    return rounding.rounded(value, spread, units=8.0 + 4.0 * abs(b) * logarithm)


def _power_of_tensors(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound the error of a power whose exponent is a tensor, computed as exp(b log a).

    The power is monotone in both operands, so its error is largest at a corner of their intervals.
    The bound is infinite where an inexact base may be 0 or negative.
    """
    x, y = number(a), number(b)
    value = operator(_value(a), _value(b))
    corners = [torch.pow(base.double(), power.double()) for base in x.ends for power in y.ends]
    spread = torch.stack([(each - value).abs().expand(value.shape) for each in corners]).amax(0)
    is_sure = ((x.ends[0] > 0) | (x.bound + y.bound == 0)).expand(value.shape)
    spread = torch.where(is_sure & ~spread.isnan(), spread, _INFINITE)
    logarithm = x.value.double().abs().clamp_min(1e-300).log().abs()
    return rounding.rounded(value, spread, units=8.0 + 4.0 * y.most * logarithm)


@rule("remainder", "fmod")
def remainder(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound the error of a remainder, exact in CUDA or computed as x - b floor(x / b).

    Rounding may change how many times the divisor is subtracted. Each subtraction too many or too
    few changes the result by one divisor.

    Raises:
        NoRuleError: The operands are integers, such as indices, and depend on rounding.
    """
    x, y = number(a), number(b)
    value = operator(_value(a), _value(b))
    if not value.is_floating_point():
        require_exact(operator, x, y)
        return Tracked(value)
    step = torch.floor if operator.overloadpacket.__name__ == "remainder" else torch.trunc
    turns = _turns(step, x, y)
    whole = (x.value.double() / y.value.double()).abs().ceil()
    # The product b floor(x / b) is rounded, and the difference from x keeps that error.
    lost = torch.where((turns == 0) & (value == 0), 0.0, 2.0 * SINGLE * x.most)
    spread = x.bound + whole * y.bound + torch.where(turns > 0, turns * y.most, 0.0)
    # A remainder is never larger than its divisor.
    spread = torch.minimum(spread, value.abs() + y.most)
    return rounding.rounded(value, spread, units=2.0, absolute=lost)


@rule("neg", "abs")
def neg_or_abs(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a negation or an absolute value, which keeps the operand's error.

    Both are Lipschitz with constant 1, and do not round.
    """
    del rounding
    return Tracked(operator(x.value), x.error)


@rule("relu", "clamp", "clamp_min", "clamp_max", "hardtanh")
def clamp(
    rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any, **kwargs: Any
) -> Tracked:
    """Bound the error of a clamp, whose result never falls when its operand or a limit grows.

    A kernel may round the limits to float32.
    """
    given = [x, *(each for each in (*args, *kwargs.values()) if each is not None)]
    value = operator(x.value, *map(_value, args), **{k: _value(v) for k, v in kwargs.items()})
    if _none(*(rounding.held(each) for each in given)):
        return Tracked(value)

    def at(end: int) -> Tensor:
        def part(each: Any) -> Any:
            if isinstance(each, Tracked):
                return each.ends[end]
            return None if each is None else float(rounding.held(each).ends[end])

        low: Tensor = operator(
            x.ends[end], *map(part, args), **{k: part(v) for k, v in kwargs.items()}
        )
        return low

    return Tracked(value, torch.maximum(value - at(0), at(1) - value))


@rule("maximum", "minimum")
def maximum_or_minimum(rounding: RoundingErrors, operator: Any, a: Tracked, b: Tracked) -> Tracked:
    """Bound the error of the larger or smaller operand, which never falls when an operand grows."""
    del rounding
    return bound_monotone(operator, a, b)


def _exponential(x: Tensor, _: Tensor) -> Tensor:
    # __expf: 2 + floor(abs(1.173 x)) ulps. Beyond 1000 the result is 0 or infinite.
    return 4.0 + 2.4 * x.abs().clamp_max(1000.0)


def _logistic(x: Tensor, y: Tensor) -> Tensor:
    # 1 / (1 + exp(-x)): the exponential's error counts by its share of the divisor, 1 - y.
    return 8.0 + 2.4 * x.abs() * (1.0 - y).clamp(0, 1)


def _of(units: float) -> Callable[[Tensor, Tensor], Tensor | float]:
    """Return a function that ignores its operands and returns `units`, the error of the result."""
    return lambda _, __: units


def _near_one(x: Tensor, _: Tensor) -> Tensor:
    # Between 0.5 and 2, __logf has an absolute error bound only.
    return torch.where((x > 0.25) & (x < 4.0), 2.0**-21.4, 0.0)


def _near_its_end(_: Tensor, y: Tensor) -> Tensor:
    # In log(x + sqrt(x^2 - 1)), x^2 - 1 is off by a rounding of x^2. sqrt(x^2 - 1) is sinh(y).
    return y.sinh().clamp_min(2.0**-11).reciprocal().mul(2.0 * SINGLE).add(2.0**-21.4)


def _inverse_of_error(_: Tensor, y: Tensor) -> Tensor:
    # Newton's method from erf is off as though the operand were off by a rounding of 1.
    return y.square().exp() * (SINGLE * math.sqrt(math.pi))


# The error of a function's result, from the operand x and the exact result y.
_Loss = Callable[[Tensor, Tensor], Tensor | float]
# Each function's relative error, in units of float32's roundoff, and its absolute error.
_MONOTONE: Mapping[str, tuple[_Loss, _Loss]] = {
    "exp": (_exponential, _of(0.0)),
    "exp2": (_exponential, _of(0.0)),
    # Many kernels write exp(x) - 1, which cancels near 0.
    "expm1": (_exponential, lambda x, _: 6.0 * SINGLE * x.exp().clamp_max(1.0)),
    "log": (_of(6.0), _near_one),
    "log2": (_of(6.0), _near_one),
    "log10": (_of(6.0), _near_one),
    # Many kernels write log(1 + x).
    "log1p": (_of(6.0), lambda x, _: 2.0**-21.4 + 0.0 * x),
    "sqrt": (_of(4.0), _of(0.0)),
    "sigmoid": (_logistic, _of(0.0)),
    # Computed from exponentials, it has an absolute error bound only.
    "tanh": (_of(8.0), _of(8.0 * SINGLE)),
    # Abramowitz and Stegun's approximation 7.1.26, which kernels often use, is off by 1.5e-7.
    "erf": (_of(4.0), _of(1.5e-7 + 8.0 * SINGLE)),
    "atan": (_of(4.0), _of(0.0)),
    "asinh": (_of(6.0), _of(4.0 * SINGLE)),
    "sinh": (_exponential, _of(4.0 * SINGLE)),
    # Computed as pi / 2 less acos, asin has an absolute error bound only; acos below likewise.
    "asin": (_of(8.0), _of(4.0 * SINGLE)),
    # Computed as log((1 + x) / (1 - x)) / 2.
    "atanh": (_of(12.0), _of(2.0**-21.4)),
    "acosh": (_of(16.0), _near_its_end),
    "erfinv": (_of(8.0), _inverse_of_error),
    "erf_inv": (_of(8.0), _inverse_of_error),
}
_DECREASING: Mapping[str, tuple[_Loss, _Loss]] = {
    "rsqrt": (_of(4.0), _of(0.0)),
    "reciprocal": (_of(4.0), _of(0.0)),
    "erfc": (_of(12.0), _of(2.0 * SINGLE)),
    "acos": (_of(8.0), _of(4.0 * SINGLE)),
}


@rule(*_MONOTONE, *_DECREASING)
def monotone(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a monotone function, by its values at the ends of the operand's interval.

    The error of computing the function itself is added.
    """
    name = operator.overloadpacket.__name__
    units, absolute = {**_MONOTONE, **_DECREASING}[name]
    value = operator(x.value)
    spread = spread_at_ends(operator, x, value)
    if spread is not None and name == "reciprocal":
        # It is not monotone across its pole at 0.
        spread = torch.where(x.value.abs() > x.bound, spread, _INFINITE)
    return rounding.rounded(
        value, spread, units=units(x.value, value), absolute=absolute(x.value, value)
    )


def spread_at_ends(
    function: Callable[[Tensor], Tensor], x: Tracked, value: Tensor
) -> Tensor | None:
    """Return how far the operand's error can move the result of a monotone or convex function.

    The result moves farthest at an end of the operand's interval. The distance is infinite where an
    end is outside of the function's domain, and None for an exact operand.

    Args:
        function: The function.
        x: Its operand, with errors.
        value: The function's result for the exact operand.
    """
    if x.error is None:
        return None
    differences = [(function(end) - value).abs() for end in x.ends]
    largest = torch.maximum(*differences)
    certain = x.bound == 0
    return torch.where(certain, 0.0, torch.where(largest.isnan(), _INFINITE, largest))


@rule("sin", "cos")
def sin_or_cos(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a sine or cosine, which is Lipschitz with constant 1 and at most 1.

    Computing the function adds two ulps, and the error of the intrinsics `__sinf` and `__cosf`.
    """
    value = operator(x.value)
    spread = None if x.error is None else torch.minimum(x.error, 1.0 + value.abs())
    return rounding.rounded(value, spread, units=4.0, absolute=of_intrinsics(x.value))


def of_intrinsics(x: Tensor) -> Tensor:
    """Return the absolute error of the PTX instructions sin.approx and cos.approx.

    It is 2^-20.5 for an argument x of up to pi (PTX ISA, 9.7.3.18). Beyond pi, 4 u |x| is added,
    where u is float32's roundoff, for the rounding of x / (2 pi).
    """
    beyond = torch.where(x.abs() > math.pi, x.abs(), 0.0)
    return beyond.mul(4.0 * SINGLE).add(2.0**-20.5)


@rule("floor", "ceil", "round", "trunc", "sign")
def floor_or_ceil(
    rounding: RoundingErrors, operator: Any, x: Tracked, decimals: int = 0
) -> Tracked:
    """Bound the error of a step function: 0, unless the operand's error changes the step.

    With `decimals`, the operand is first multiplied by a power of ten, which rounds.
    """
    if not decimals:
        return bound_monotone(operator, x)
    moved = Tracked(x.value, x.bound + 2.0 * SINGLE * x.most)
    steps = bound_monotone(lambda each: operator(each, decimals=decimals), moved)
    return rounding.rounded(steps.value, steps.error, units=4.0)


@rule("gt", "ge", "lt", "le", "eq", "ne")
def comparison(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound the error of a comparison, which is uncertain where the operands' intervals meet."""
    del rounding
    x, y = number(a), number(b)
    value = operator(_value(a), _value(b))
    # A tensor is compared with itself to find NaN. Exact operands compare exactly with a plain
    # number, though a kernel may hold that in float32.
    if a is b or (x.error is None and (y.error is None or not isinstance(b, Tracked))):
        return Tracked(value)
    apart = (x.value.double() - y.value.double()).abs()
    reach = x.bound + y.bound
    unsure = ((apart <= reach) & (reach > 0)).expand(value.shape)
    return Tracked(value, unsure.double() if bool(unsure.any()) else None)


_OF_TRUTHS = """
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
"""


@rule(*_OF_TRUTHS.split())
def logical(rounding: RoundingErrors, operator: Any, *operands: Tracked) -> Tracked:
    """Bound the error of a logical operator, which is uncertain where an operand is uncertain."""
    del rounding
    value = operator(*map(_value, operands))
    errors = [
        each.error for each in operands if isinstance(each, Tracked) and each.error is not None
    ]
    if not errors:
        return Tracked(value)
    return Tracked(value, sum(errors, torch.zeros_like(errors[0])).clamp_max(1.0))


@rule("where")
def select_where(
    rounding: RoundingErrors, operator: Any, condition: Tracked, a: Any, b: Any
) -> Tracked:
    """Bound the error of `where`; an uncertain condition may select either operand."""
    x, y = rounding.held(a), rounding.held(b)
    value = operator(condition.value, _value(a), _value(b))
    if _none(condition, x, y):
        return Tracked(value)
    error = torch.where(condition.value, x.bound, y.bound).expand(value.shape)
    if condition.error is not None:
        # The operand that the exact condition does not select.
        other = torch.where(condition.value, y.value, x.value).double()
        reach = torch.where(condition.value, y.bound, x.bound)
        either = torch.maximum(error, (other - value).abs() + reach)
        error = torch.where(condition.error > 0, either, error)
    return Tracked(value, error)


@rule("masked_fill")
def masked_fill(
    rounding: RoundingErrors, operator: Any, x: Tracked, mask: Tracked, fill: Any
) -> Tracked:
    """Bound the error of `masked_fill`, which writes one number where the mask is true."""
    value = operator(x.value, mask.value, _value(fill))
    held = rounding.held(fill)
    if mask.error is not None:
        return select_where(rounding, torch.ops.aten.where.self, mask, held, x)
    if _none(x, held):
        return Tracked(value)
    # An infinite number, such as a mask's, is exact.
    bound = held.bound if math.isfinite(float(_value(fill))) else 0.0
    return Tracked(value, torch.where(mask.value, bound, x.bound))
