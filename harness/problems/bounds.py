"""How far from the exact output a right one may be, from the arithmetic that it is computed in.

The bounds are those of Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., SIAM 2002),
section 3.1: a sum of n products, evaluated in any order with unit roundoff u, differs from the
exact one by at most gamma_n(u) * sum |w| |x|, where gamma_n(u) = n u / (1 - n u).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.fx import GraphModule

_FLOAT64_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Traced:
    """A call of a reference.

    Attributes:
        graph: Of torch's core operators (`rounding.propagate.trace`).
        tensors: What it is called with: weights and inputs, floating-point numbers in float64.
        names: What the reference calls each of them.
    """

    graph: GraphModule
    tensors: Sequence[Tensor]
    names: Sequence[str]


class Instance(Protocol):
    """A `Model` that was built for one configuration, as a function."""

    @property
    def output_dtype(self) -> torch.dtype:
        """What a submission's output must be, where it is floating-point numbers."""

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Give its output with every floating-point number converted to `dtype`."""

    def traced(self, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Traced:
        """Give it as a graph of torch's core operators, and what the graph is called with.

        Raises:
            harness.problems.rounding.tracked.NoRuleError: It cannot be traced.
        """


@dataclass(frozen=True)
class Arithmetic:
    """How a sum of products loses accuracy in one format.

    Attributes:
        roundoff: Relative error of rounding a number to the format.
        roundings: How often a product's value is rounded to it: each operand, and the output.
        accumulation: Unit roundoff of the products and their sum.
        extra_terms: What n is increased by, in units of `accumulation`.
        smallest: Absolute error of an operand that is too small for `roundoff` to hold.
    """

    roundoff: float
    roundings: int
    accumulation: float
    extra_terms: int
    smallest: float


class Expected(Protocol):
    """What an output must be."""

    @property
    def value(self) -> Tensor:
        """The exact output but for float64's rounding; float64, or of its own kind."""

    @property
    def dtype(self) -> torch.dtype:
        """What a submission's output must be."""

    @property
    def estimated(self) -> str:
        """Why the bound is not rigorous; empty where it is."""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Give the largest error that each output may have, float64, of the output's shape."""

    @property
    def tried(self) -> Tensor | None:
        """How far rounding led in a few trials, of the loosest format; None where unknown.

        Float64, of the output's shape.
        """


@dataclass(frozen=True)
class Sums:
    """As `Expected`: outputs that are sums of products.

    Attributes:
        value: The exact output but for float64's rounding; float64, the output's shape.
        magnitude: The sum of the absolute values of the terms; float64, the same shape.
        terms: Number of terms in each output's sum, the bias counting as one; float64, of a shape
            that broadcasts to the output's.
        largest_operand: Largest absolute value among the inputs, plus that among the weights.
        dtype: As in `Expected`.
        estimated: As in `Expected`.
    """

    value: Tensor
    magnitude: Tensor
    terms: Tensor
    largest_operand: float
    dtype: torch.dtype
    estimated: str = ""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Give the largest error that each output may have.

        That is `largest_error`, to which the oracle's own is added.

        Args:
            arithmetic: What the output was computed in.

        Returns:
            Absolute errors, float64, of the output's shape.
        """
        own = 2.0 * gamma(self.terms, _FLOAT64_ROUNDOFF) * self.magnitude
        return own + largest_error(arithmetic, self.terms, self.magnitude, self.largest_operand)

    @property
    def tried(self) -> None:
        """None: the bound of one sum always says something."""


def largest_error(
    arithmetic: Arithmetic, terms: Tensor, magnitude: Tensor, largest_operand: float
) -> Tensor:
    """Give the largest error that sums of products may have.

    With c roundings of unit roundoff v, and n terms that accumulate with unit roundoff u:
    |error| <= ((1 + v)**c - 1 + gamma_n(u) (1 + v)**c) * magnitude, plus what is lost where
    operands, products and the output are too small for a relative error: for operands of
    absolute error a, a (|x| + |w| + 1) for each term and the output.

    Args:
        arithmetic: What they are computed in.
        terms: As in `Expected`.
        magnitude: As in `Expected`.
        largest_operand: As in `Expected`.

    Returns:
        Absolute errors, float64, of the magnitude's shape.
    """
    grown = (1.0 + arithmetic.roundoff) ** arithmetic.roundings
    rounding = gamma(terms + arithmetic.extra_terms, arithmetic.accumulation)
    lost = (terms + 1.0) * arithmetic.smallest * (largest_operand + 1.0)
    return (grown - 1.0 + rounding * grown) * magnitude + lost


def gamma(terms: Tensor, roundoff: float) -> Tensor:
    """Higham's gamma_n(u) = n u / (1 - n u), infinite from n u = 1 on, where it says nothing."""
    product = terms * roundoff
    return torch.where(product < 1.0, product / (1.0 - product), torch.inf)
