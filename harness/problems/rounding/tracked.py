"""Tensors with error bounds, the registry of operator rules, and the rounding of one arithmetic.

Each value is known as a centre and a radius: the exact result, and how far a correct computation
may be from it. A rule maps the centres and radii of operands to those of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from harness.problems.bounds import Arithmetic

SINGLE = 2.0**-24
"""Unit roundoff of float32. Elements are computed in float32, whatever format stores them."""


@dataclass(frozen=True)
class Terms:
    """Totals over the terms of each sum in a tensor.

    Attributes:
        spread: Sum of the terms' own errors; float64.
        most: Sum of the terms' largest absolute values; float64.
        count: Number of terms.
    """

    spread: Tensor
    most: Tensor
    count: Tensor | float

    def with_one(self, other: Tracked) -> Terms:
        """Return the totals of sums that have `other` as one more term."""
        return Terms(self.spread + other.bound, self.most + other.most, self.count + 1.0)

    def moved(self, operator: Callable[[Tensor], Tensor], shape: torch.Size) -> Terms:
        """Return the totals after an operator has moved the sums, as elements of a tensor.

        Args:
            operator: Moves the elements of a tensor, for example a permutation.
            shape: Shape of the sums before the move; each total is expanded to it first.
        """

        def move(part: Tensor) -> Tensor:
            return operator(part.expand(shape))

        count = move(self.count) if isinstance(self.count, Tensor) else self.count
        return Terms(move(self.spread), move(self.most), count)


@dataclass(frozen=True)
class Tracked:
    """A tensor of the reference, and how far a correct computation may be from it.

    Attributes:
        value: The exact value, but for float64's rounding.
        error: Largest error of each element, float64, in the value's shape; None if the value is
            exact. A truth value has the error 1 if it may be True or False. For a complex number,
            the error is the modulus of the difference.
        terms: Totals over the terms if the value is a sum, else None. They are kept because a
            kernel may add a later addend, such as a bias, before these terms.
    """

    value: Tensor
    error: Tensor | None = None
    terms: Terms | None = None

    @property
    def bound(self) -> Tensor:
        """The largest error of each element, as zeros if the value is exact; float64."""
        if self.error is not None:
            return self.error
        return torch.zeros(self.value.shape, dtype=torch.float64, device=self.value.device)

    @property
    def most(self) -> Tensor:
        """The largest absolute value that each element may have; float64."""
        value = self.value
        magnitude = value.abs() if value.is_complex() else value.double().abs()
        return magnitude if self.error is None else magnitude + self.error

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and the largest value that each element may have."""
        return self.value - self.bound, self.value + self.bound


def bound_monotone(function: Callable[..., Tensor], *operands: Tracked) -> Tracked:
    """Bound the error of a function that never decreases when one of its operands grows.

    The result lies between the function's values at the lower and at the upper ends of the
    operands' intervals.
    """
    value = function(*(each.value for each in operands))
    if all(each.error is None for each in operands):
        return Tracked(value)
    low, high = (function(*ends) for ends in zip(*(each.ends for each in operands), strict=True))
    return Tracked(value, torch.maximum(value - low, high - value))


# float32 holds every integer up to this one.
_MOST_WHOLE = 2.0**24


def is_whole(most: Tensor, *operands: Tracked) -> bool:
    """Return whether float32 sums some terms exactly in any order, as all are small integers.

    Args:
        most: For each sum, the sum of its terms' absolute values.
        operands: The tensors that the terms are made of.
    """
    if any(each.error is not None or each.value.is_complex() for each in operands):
        return False
    if not all(bool((each.value == each.value.round()).all()) for each in operands):
        return False
    return not most.numel() or float(most.max()) < _MOST_WHOLE


def require_exact(operator: Any, *operands: Tracked) -> None:
    """Check that some operands of an operator have no error.

    Args:
        operator: The operator, for the message.
        operands: The operands whose errors would decide the result.

    Raises:
        NoRuleError: An operand has an error.
    """
    if any(each.error is not None for each in operands):
        raise NoRuleError(f"{operator.overloadpacket.__name__}, whose result depends on rounding")


class NoRuleError(NotImplementedError):
    """Error for an operator whose rounding error has no bound; the message names the operator."""


class RoundingErrors:
    """Rounding errors of one arithmetic.

    Args:
        arithmetic: The arithmetic of a precision class.

    Attributes:
        arithmetic: The precision class's arithmetic.
        stored_roundoff: Relative error of storing a number, in addition to float32's. 0 unless the
            precision class stores its numbers in 16 bits.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        # Three roundings are those of two operands and of the output, so a class with three stores
        # its numbers in its own format. TF32 rounds the operands alone.
        self._is_stored = arithmetic.roundings > 2
        self.stored_roundoff = arithmetic.roundoff if self._is_stored else 0.0
        is_half = arithmetic.roundoff == 2.0**-11
        stored = torch.float16 if is_half else torch.bfloat16
        self._format = stored if self._is_stored else torch.float32

    def given(self, value: Tensor) -> Tracked:
        """Return an input or a weight, with the error of storing it as the precision class does."""
        if value.is_complex():
            value = value.to(torch.complex128)
        elif not value.is_floating_point():
            return Tracked(value)
        if not self._is_stored:
            return Tracked(value)
        holds = self._holds(value)
        if bool(holds.all()):
            return Tracked(value)
        lost = self.stored_roundoff * value.abs() + self.arithmetic.smallest
        return Tracked(value, torch.where(holds, 0.0, lost))

    def rounded(
        self,
        value: Tensor,
        error: Tensor | None,
        units: Tensor | float = 1.0,
        absolute: Tensor | float = 0.0,
    ) -> Tracked:
        """Return an operator's result with all its errors, including that of storing it.

        Args:
            value: The exact result.
            error: Error that follows from the operands' errors; None if the operands are exact.
            units: Relative error of computing the result, in units of float32's roundoff. It is 1
                for an operation that IEEE 754 rounds correctly.
            absolute: Absolute error of computing the result.
        """
        known = torch.zeros_like(value) if error is None else error
        reach = value.abs() + known
        lost = (units * SINGLE + self.stored_roundoff) * reach + absolute + self.arithmetic.smallest
        # An infinite result, such as that of adding a mask, has no rounding error.
        lost = torch.where(value.isinf(), 0.0, lost)
        if isinstance(units, float) and units <= 1.0:
            # A correctly rounded result of exact operands is exact if the format holds it.
            lost = torch.where(self._holds(value) & (known == 0), 0.0, lost)
            if error is None and not bool(lost.any()):
                return Tracked(value)
        return Tracked(value, known + lost)

    def held(self, operand: object) -> Tracked:
        """Return a number with the error of storing it, for example the border of a padding.

        Args:
            operand: A tracked tensor, which is returned as it is, or a plain number.
        """
        if isinstance(operand, Tracked):
            return operand
        exact = number(operand)
        stored = self.given(exact.value)
        if exact.error is None:
            return stored
        return Tracked(exact.value, exact.error + stored.bound)

    def operand(self, tracked: Tracked) -> Tracked:
        """Return an operand of a sum of products, with the error of a tensor core that reads it.

        Only TF32 tensor cores round operands. A precision class of 16 bits has rounded the operand
        where it was stored.
        """
        if self._is_stored or not self.arithmetic.roundoff:
            return tracked
        if tracked.value.is_complex():
            return Tracked(tracked.value, tracked.bound + self.arithmetic.roundoff * tracked.most)
        bits = tracked.value.float().view(torch.int32)
        # TF32 keeps 10 of float32's 23 mantissa bits, so a number without the other 13 is exact.
        fits = ((bits & 0x1FFF) == 0) & (tracked.value.float().double() == tracked.value)
        lost = torch.where(fits, 0.0, self.arithmetic.roundoff * tracked.most)
        return Tracked(tracked.value, tracked.bound + lost)

    def summed(self, value: Tensor, spread: Tensor, most: Tensor, terms: Tensor | float) -> Tracked:
        """Return a sum, with its error bound for any order of summation (Higham, section 3.1).

        The bound holds for every order, since a kernel may use any. A bound for one order, such as
        a tree's, is tighter, but a kernel that sums one by one could exceed it.

        Args:
            value: The exact sum.
            spread: Sum of the terms' own errors.
            most: Sum of the terms' largest absolute values.
            terms: Number of terms.
        """
        arithmetic = self.arithmetic
        product = (torch.as_tensor(terms).double() + arithmetic.extra_terms).to(
            most.device
        ) * arithmetic.accumulation
        # Higham's gamma_n(u) = n u / (1 - n u), which says nothing from n u = 1 on.
        gamma = torch.where(product < 1.0, product / (1.0 - product), torch.inf)
        lost = gamma * most + (terms + 1.0) * arithmetic.smallest
        result = self.rounded(value, spread + lost)
        return replace(result, terms=Terms(spread, most, terms))

    def _holds(self, value: Tensor) -> Tensor:
        """Return a mask of values that the precision class can store exactly."""
        if value.is_complex():
            return torch.zeros(value.shape, dtype=torch.bool, device=value.device)
        return value.to(self._format).double() == value


Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
# By the operator's name without namespace and overload: all overloads lose the same.
_RULES: dict[str, Rule] = {}
_OF_COMPLEX: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[R], R]:
    """Register a function as the error-bound rule of some operators.

    The function is called with the `RoundingErrors`, the operator and the operator's arguments.
    Tensors among the arguments and in the result are `Tracked`.

    Args:
        names: Names of the operators, without namespace and overload.
    """

    def register(function: R) -> R:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def complex_rule(*names: str) -> Callable[[R], R]:
    """Register a function as the error-bound rule of operators with a complex operand.

    A call with a complex operand only uses rules registered here, since rules of real numbers do
    not hold for complex numbers.

    Args:
        names: Names of the operators, without namespace and overload.
    """

    def register(function: R) -> R:
        _OF_COMPLEX.update(dict.fromkeys(names, function))
        return function

    return register


def rule_of(operator: Any, operands: Iterable[object]) -> Rule | None:
    """Return the error-bound rule of an operator for the given operands; None if there is none."""
    is_complex = any(
        each.value.is_complex() if isinstance(each, Tracked) else isinstance(each, complex)
        for each in operands
    )
    return (_OF_COMPLEX if is_complex else _RULES).get(operator.overloadpacket.__name__)


def has_rule(operator: Any) -> bool:
    """Return whether an operator has an error-bound rule for real operands.

    The name of an in-place operator, such as `sigmoid_`, is looked up without the underscore.
    """
    return operator.overloadpacket.__name__.removesuffix("_") in _RULES


def constant(value: Tensor) -> Tracked:
    """Return a constant in float64, with the error of a kernel that rounds it to float32."""
    if value.is_complex():
        return Tracked(value.to(torch.complex128))
    if not value.is_floating_point():
        return Tracked(value)
    exact = value.double()
    lost = (exact.float().double() - exact).abs()
    lost = torch.where(lost.isfinite(), lost, 0.0)
    return Tracked(exact, lost if bool(lost.any()) else None)


def number(value: object) -> Tracked:
    """Return an operand as `Tracked`, also if it is a plain number."""
    if isinstance(value, Tracked):
        return value
    return constant(torch.tensor(float(value), dtype=torch.float64))  # type: ignore[arg-type]
