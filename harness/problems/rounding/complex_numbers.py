"""Error-bound rules of complex arithmetic and of Fourier transforms.

The error of a complex number is the modulus of its difference from the exact number. Higham,
section 3.6, has the errors of complex arithmetic. These rules allow more, since division and roots
may be approximate.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.problems.rounding.elementwise import monotone, mul, sin_or_cos
from harness.problems.rounding.functions import atan2
from harness.problems.rounding.tracked import (
    SINGLE,
    NoRuleError,
    RoundingErrors,
    Tracked,
    complex_rule,
    number,
    rule,
)

_aten = torch.ops.aten


def _operand(value: Any) -> Tracked:
    """Return an operand as `Tracked`, also if it is a plain real or complex number."""
    if isinstance(value, complex):
        return Tracked(torch.tensor(value, dtype=torch.complex128))
    return number(value)


def _joined(real: Tracked, imaginary: Tracked) -> Tracked:
    """Return complex numbers with their errors, from real and imaginary parts."""
    value = torch.complex(real.value, imaginary.value)
    if real.error is None and imaginary.error is None:
        return Tracked(value)
    return Tracked(value, torch.hypot(real.bound, imaginary.bound).expand(value.shape))


def _parts(x: Tracked) -> tuple[Tracked, Tracked]:
    """Return real and imaginary parts; the error of each is at most that of the complex number."""
    return Tracked(x.value.real, x.error), Tracked(x.value.imag, x.error)


@rule("view_as_complex")
def view_as_complex(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of `view_as_complex`, which reads pairs of reals as complex numbers."""
    del rounding
    value = operator(x.value.contiguous())
    return Tracked(value, None if x.error is None else torch.linalg.vector_norm(x.error, dim=-1))


@complex_rule("view_as_real")
def view_as_real(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of `view_as_real`: a part's error is at most the complex number's error."""
    del rounding
    value = operator(x.value)
    return Tracked(value, None if x.error is None else torch.stack([x.error, x.error], dim=-1))


@complex_rule("_conj", "_conj_physical", "conj_physical", "resolve_conj")
def conjugate(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of conjugation, which rounds nothing."""
    del rounding
    return Tracked(operator(x.value).resolve_conj(), x.error)


@rule("complex")
def complex_of_parts(
    rounding: RoundingErrors, operator: Any, real: Tracked, imaginary: Tracked
) -> Tracked:
    """Bound the error of `complex`, which joins real and imaginary parts."""
    del rounding, operator
    return _joined(real, imaginary)


@rule("polar")
def polar(rounding: RoundingErrors, operator: Any, radius: Tracked, turned: Tracked) -> Tracked:
    """Bound the error of `polar`, computed as the radius times a cosine and a sine."""
    del operator
    parts = (
        mul(rounding, _aten.mul.Tensor, radius, sin_or_cos(rounding, function, turned))
        for function in (_aten.cos.default, _aten.sin.default)
    )
    return _joined(*parts)


@complex_rule("exp")
def exponential(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of a complex exponential.

    It is computed as `polar`, with the exponential of the real part as radius and the imaginary
    part as angle.
    """
    real, imaginary = _parts(x)
    radius = monotone(rounding, operator, real)
    return polar(rounding, _aten.polar.default, radius, imaginary)


@complex_rule("abs")
def modulus(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of an absolute value, which is Lipschitz with constant 1.

    It is computed as the root of a sum of squares, which may underflow.
    """
    return rounding.rounded(operator(x.value), x.error, units=8.0, absolute=2.0**-62)


@complex_rule("angle")
def argument(rounding: RoundingErrors, operator: Any, x: Tracked) -> Tracked:
    """Bound the error of an angle, computed from both parts by `atan2`."""
    del operator
    real, imaginary = _parts(x)
    return atan2(rounding, _aten.atan2.default, imaginary, real)


@complex_rule("add", "sub")
def added(rounding: RoundingErrors, operator: Any, a: Any, b: Any, alpha: float = 1) -> Tracked:
    """Bound the error of a complex sum or difference (Higham, (3.14a))."""
    x, y = _operand(a), _operand(b)
    value = operator(x.value, y.value, alpha=alpha)
    error = (x.bound + abs(alpha) * y.bound).expand(value.shape)
    return rounding.rounded(value, error, units=2.0)


@complex_rule("mul")
def multiplied_numbers(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound a complex product's error by sqrt(2) gamma_2 times its modulus (Higham, (3.14b))."""
    x, y = _operand(a), _operand(b)
    value = operator(x.value, y.value)
    lost = (x.most * y.most - x.value.abs() * y.value.abs()).expand(value.shape)
    return rounding.rounded(value, lost, units=4.0)


@complex_rule("div")
def divided(rounding: RoundingErrors, operator: Any, a: Any, b: Any) -> Tracked:
    """Bound a complex quotient's error by sqrt(2) gamma_4 times its modulus (Higham, (3.14c)).

    The bound also allows an error of two ulps for divisions of real numbers.
    """
    x, y = _operand(a), _operand(b)
    value = operator(x.value, y.value)
    room = y.value.abs() - y.bound
    spread = torch.where(room > 0, (x.bound + value.abs() * y.bound) / room, torch.inf)
    return rounding.rounded(value, spread.expand(value.shape), units=16.0)


@rule("_fft_r2c")
@complex_rule("_fft_c2c", "_fft_c2r")
def fft(
    rounding: RoundingErrors, operator: Any, x: Tracked, dim: Any, normalization: int, last: Any
) -> Tracked:
    """Bound the error of a Fourier transform, computed by sums of products or by a fast transform.

    The factors are roots of unity, each of which has an error of at most mu. A fast transform of n
    numbers has an error of log2(n) (mu + gamma_4 (sqrt(2) + mu)) relative to the 2-norm (Higham,
    theorem 24.2). With roots from `__sinf`, mu is 12 times float32's roundoff.

    Raises:
        NoRuleError: The transform is empty.
    """
    dims = list(dim)
    value = operator(x.value, dim, normalization, last)
    if not value.numel():
        raise NoRuleError("a transform of an empty tensor")
    is_half = operator.overloadpacket.__name__ == "_fft_c2r"
    whole = value if is_half else x.value
    count = float(math.prod(whole.shape[each] for each in dims))
    scale = {0: 1.0, 1: count**-0.5, 2: 1.0 / count}[normalization]
    # Of a real signal's transform only half is given.
    twice = 2.0 * scale if is_half else scale
    total = twice * x.most.sum(dims, keepdim=True)
    norm = twice * math.sqrt(count) * torch.linalg.vector_norm(x.most, dim=dims, keepdim=True)
    read = rounding.operand(x)
    of_operands = twice * (read.bound.sum(dims, keepdim=True))
    arithmetic = rounding.arithmetic
    terms = (count + arithmetic.extra_terms + 2.0) * arithmetic.accumulation
    if terms >= 0.5:
        return Tracked(value, torch.full_like(value, torch.inf, dtype=torch.float64))
    factors = 12.0 * SINGLE + (0.0 if rounding.stored_roundoff else arithmetic.roundoff)
    lost = (2.0 * terms + factors) * total + 20.0 * SINGLE * math.log2(count + 1.0) * norm
    return rounding.rounded(value, (of_operands + lost).expand(value.shape), units=4.0)
