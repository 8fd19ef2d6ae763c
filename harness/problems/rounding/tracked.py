"""Tensors with bounds of their errors, the rules by which operators carry them on, and rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from harness.problems.bounds import Arithmetic

SINGLE = 2.0**-24
"""Unit roundoff of float32, in which elements are computed whatever they are stored in."""


@dataclass(frozen=True)
class Terms:
    """What a sum is made of.

    Attributes:
        spread: What their own errors add up to; float64.
        most: The sum of their largest absolute values; float64.
        count: How many there are.
    """

    spread: Tensor
    most: Tensor
    count: Tensor | float

    def with_one(self, other: Tracked) -> Terms:
        """With one more."""
        return Terms(self.spread + other.bound, self.most + other.most, self.count + 1.0)

    def moved(self, operator: Callable[[Tensor], Tensor], shape: torch.Size) -> Terms:
        """Of sums that are moved, in what has a shape before."""

        def move(part: Tensor) -> Tensor:
            return operator(part.expand(shape))

        count = move(self.count) if isinstance(self.count, Tensor) else self.count
        return Terms(move(self.spread), move(self.most), count)


@dataclass(frozen=True)
class Tracked:
    """What a right computation has, approximately.

    Attributes:
        value: The exact one but for float64's rounding.
        error: How far from it each element may be, float64 of the value's shape; None where it is
            exact. Of truth values, 1 where either may be had; of complex numbers, the modulus.
        terms: Of a sum, which may go on with what is added to it.
    """

    value: Tensor
    error: Tensor | None = None
    terms: Terms | None = None

    @property
    def bound(self) -> Tensor:
        """The errors, as zeros where there are none."""
        if self.error is not None:
            return self.error
        return torch.zeros(self.value.shape, dtype=torch.float64, device=self.value.device)

    @property
    def most(self) -> Tensor:
        """The largest absolute values."""
        value = self.value
        magnitude = value.abs() if value.is_complex() else value.double().abs()
        return magnitude if self.error is None else magnitude + self.error

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and the largest values."""
        return self.value - self.bound, self.value + self.bound


def between(function: Callable[..., Tensor], *operands: Tracked) -> Tracked:
    """What a function that grows with each operand gives: it is between its values at both ends."""
    value = function(*(each.value for each in operands))
    if all(each.error is None for each in operands):
        return Tracked(value)
    low, high = (function(*ends) for ends in zip(*(each.ends for each in operands), strict=True))
    return Tracked(value, torch.maximum(value - low, high - value))


_MOST_WHOLE = 2.0**24


def is_whole(most: Tensor, *operands: Tracked) -> bool:
    """Whether float32 sums integers without rounding, in any order; `most` are their magnitudes."""
    if any(each.error is not None or each.value.is_complex() for each in operands):
        return False
    if not all(bool((each.value == each.value.round()).all()) for each in operands):
        return False
    return not most.numel() or float(most.max()) < _MOST_WHOLE


def certain(operator: Any, *operands: Tracked) -> None:
    """See that rounding decides nothing of some operands.

    Raises:
        NoRuleError: It does.
    """
    if any(each.error is not None for each in operands):
        raise NoRuleError(f"{operator.overloadpacket.__name__} of what rounding decides")


class NoRuleError(NotImplementedError):
    """An operator whose errors nobody has bounded; the message is its name."""


class Rounding:
    """What one arithmetic loses where.

    Args:
        arithmetic: Of a precision class.

    Attributes:
        stored_roundoff: Relative error of storing a number, beyond float32's.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        # Three roundings are those of two operands and of the output: it is stored in the format.
        self._is_stored = arithmetic.roundings > 2
        self.stored_roundoff = arithmetic.roundoff if self._is_stored else 0.0
        is_half = arithmetic.roundoff == 2.0**-11
        stored = torch.float16 if is_half else torch.bfloat16
        self._format = stored if self._is_stored else torch.float32

    def given(self, value: Tensor) -> Tracked:
        """An input or a weight, as it is read."""
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
        """A result as it is kept.

        Args:
            value: The exact one.
            error: What its operands' errors make of it; None for exact ones.
            units: Relative error of computing it, in float32's unit roundoff: 1 for what IEEE 754
                rounds correctly.
            absolute: Absolute error of computing it.
        """
        known = torch.zeros_like(value) if error is None else error
        reach = value.abs() + known
        lost = (units * SINGLE + self.stored_roundoff) * reach + absolute + self.arithmetic.smallest
        # What is infinite is so wherever its operands' errors leave it so, as what a mask adds to.
        lost = torch.where(value.isinf(), 0.0, lost)
        if isinstance(units, float) and units <= 1.0:
            # What is computed from exact numbers, and rounded correctly, is exact where it fits.
            lost = torch.where(self._holds(value) & (known == 0), 0.0, lost)
            if error is None and not bool(lost.any()):
                return Tracked(value)
        return Tracked(value, known + lost)

    def held(self, operand: object) -> Tracked:
        """A number that becomes part of a result, as it is stored there."""
        if isinstance(operand, Tracked):
            return operand
        exact = number(operand)
        stored = self.given(exact.value)
        if exact.error is None:
            return stored
        return Tracked(exact.value, exact.error + stored.bound)

    def operand(self, tracked: Tracked) -> Tracked:
        """An operand of a sum of products, as a tensor core reads it."""
        if self._is_stored or not self.arithmetic.roundoff:
            return tracked
        if tracked.value.is_complex():
            return Tracked(tracked.value, tracked.bound + self.arithmetic.roundoff * tracked.most)
        bits = tracked.value.float().view(torch.int32)
        # TF32 keeps 10 of float32's 23 bits.
        fits = ((bits & 0x1FFF) == 0) & (tracked.value.float().double() == tracked.value)
        lost = torch.where(fits, 0.0, self.arithmetic.roundoff * tracked.most)
        return Tracked(tracked.value, tracked.bound + lost)

    def summed(self, value: Tensor, spread: Tensor, most: Tensor, terms: Tensor | float) -> Tracked:
        """A sum in any order; Higham, section 3.1.

        Args:
            value: The exact one.
            spread: What the terms' own errors add up to.
            most: The sum of the terms' largest absolute values.
            terms: How many there are.
        """
        arithmetic = self.arithmetic
        product = (torch.as_tensor(terms).double() + arithmetic.extra_terms).to(
            most.device
        ) * arithmetic.accumulation
        gamma = torch.where(product < 1.0, product / (1.0 - product), torch.inf)
        lost = gamma * most + (terms + 1.0) * arithmetic.smallest
        result = self.rounded(value, spread + lost)
        return replace(result, terms=Terms(spread, most, terms))

    def _holds(self, value: Tensor) -> Tensor:
        if value.is_complex():
            return torch.zeros(value.shape, dtype=torch.bool, device=value.device)
        return value.to(self._format).double() == value


Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
_RULES: dict[str, Rule] = {}
_OF_COMPLEX: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[R], R]:
    """Make a function the rule of operators, by their names without namespace and overload.

    It is called with the `Rounding`, the operator, and its arguments, the tensors `Tracked`.
    """

    def register(function: R) -> R:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def complex_rule(*names: str) -> Callable[[R], R]:
    """As `rule`, where an operand is complex: what a rule of real numbers says of it is not so."""

    def register(function: R) -> R:
        _OF_COMPLEX.update(dict.fromkeys(names, function))
        return function

    return register


def rule_of(operator: Any, operands: Iterable[object]) -> Rule | None:
    """The rule of an operator for some operands; None for none."""
    is_complex = any(
        each.value.is_complex() if isinstance(each, Tracked) else isinstance(each, complex)
        for each in operands
    )
    return (_OF_COMPLEX if is_complex else _RULES).get(operator.overloadpacket.__name__)


def has_rule(operator: Any) -> bool:
    """Whether an operator has one, or what it does has one where it is not done in place."""
    return operator.overloadpacket.__name__.removesuffix("_") in _RULES


def constant(value: Tensor) -> Tracked:
    """Numbers that were made in float64: a kernel may hold them in float32."""
    if value.is_complex():
        return Tracked(value.to(torch.complex128))
    if not value.is_floating_point():
        return Tracked(value)
    exact = value.double()
    lost = (exact.float().double() - exact).abs()
    lost = torch.where(lost.isfinite(), lost, 0.0)
    return Tracked(exact, lost if bool(lost.any()) else None)


def number(value: object) -> Tracked:
    """An operand that may be a plain number."""
    if isinstance(value, Tracked):
        return value
    return constant(torch.tensor(float(value), dtype=torch.float64))  # type: ignore[arg-type]
