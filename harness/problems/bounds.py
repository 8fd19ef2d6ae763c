"""Bounds on the error of a correct output, derived from the arithmetic that computes it.

The bounds are those of Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., SIAM 2002),
section 3.1. A sum of n products is evaluated in any order with unit roundoff u. It differs from the
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
    """A traced call of a reference.

    Attributes:
        graph: The graph, of torch's core operators (`rounding.propagate.trace`).
        tensors: Arguments of the graph: weights and inputs; floating-point ones are float64.
        names: The reference's names of the arguments.
    """

    graph: GraphModule
    tensors: Sequence[Tensor]
    names: Sequence[str]


class Instance(Protocol):
    """A `Model` that was built for one configuration, as a function."""

    @property
    def output_dtype(self) -> torch.dtype:
        """The dtype that a submission's output must have, if it is floating point."""

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return the output, with every floating-point tensor converted to `dtype`."""

    def traced(self, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Traced:
        """Return the call as a graph of torch's core operators, with the arguments of the graph.

        Raises:
            harness.problems.rounding.tracked.NoRuleError: The call cannot be traced.
        """


@dataclass(frozen=True)
class Arithmetic:
    """The rounding errors of a sum of products in one format.

    Attributes:
        roundoff: Unit roundoff of the format.
        roundings: How often a product's value is rounded to the format: each operand, and the
            output.
        accumulation: Unit roundoff of the products and their sum.
        extra_terms: A number added to n, in units of `accumulation`.
        smallest: Absolute error of an operand that is too small for the relative error `roundoff`.
    """

    roundoff: float
    roundings: int
    accumulation: float
    extra_terms: int
    smallest: float


SINGLE = Arithmetic(
    roundoff=0.0, roundings=0, accumulation=2.0**-24, extra_terms=24, smallest=2.0**-126
)
"""float32, with the 24 terms that `judging.oracle.CLASSES` explains."""


class Expected(Protocol):
    """A correct output and its error bounds."""

    @property
    def value(self) -> Tensor:
        """The output, exact up to float64's rounding.

        Float64; an output that is not floating point keeps its dtype.
        """

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that a submission's output must have."""

    @property
    def estimated(self) -> str:
        """Why the bound is not rigorous; empty if it is."""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Return the largest error that each element may have; float64, in the output's shape."""

    @property
    def tried(self) -> Tensor | None:
        """The errors in a few trials with the loosest format; None if unknown.

        Float64, in the output's shape.
        """


@dataclass(frozen=True)
class Sums:
    """An `Expected` output whose elements are sums of products.

    Attributes:
        value: The output, exact up to float64's rounding; float64.
        magnitude: The sum of the absolute values of the terms; float64, in the output's shape.
        terms: Number of terms in each element's sum, the bias counting as one; float64, in a shape
            that broadcasts to the output's.
        largest_operand: Largest absolute value among the inputs, plus that among the weights.
        dtype: The dtype that a submission's output must have.
        estimated: Why the bound is not rigorous; empty if it is.
    """

    value: Tensor
    magnitude: Tensor
    terms: Tensor
    largest_operand: float
    dtype: torch.dtype
    estimated: str = ""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Return the largest error that each element may have.

        It is `largest_error` plus a bound on the oracle's own error in float64.

        Args:
            arithmetic: The arithmetic of the computation.

        Returns:
            Absolute errors; float64, in the output's shape.
        """
        own = 2.0 * gamma(self.terms, _FLOAT64_ROUNDOFF) * self.magnitude
        return own + largest_error(arithmetic, self.terms, self.magnitude, self.largest_operand)

    @property
    def tried(self) -> None:
        """No trial errors (None): the bound of a single sum is always informative."""


def largest_error(
    arithmetic: Arithmetic, terms: Tensor, magnitude: Tensor, largest_operand: float
) -> Tensor:
    """Return the largest error that sums of products may have.

    With c roundings of unit roundoff v, and n terms that accumulate with unit roundoff u:

        |error| <= ((1 + v)**c - 1 + gamma_n(u) (1 + v)**c) * magnitude

    Operands, products and outputs may be too small for a relative error. For an absolute error a of
    an operand, a (|x| + |w| + 1) is added for each term and the output.

    Args:
        arithmetic: The arithmetic of the computation.
        terms: Number of terms in each sum, as in `Sums`.
        magnitude: Sum of the absolute values of the terms, as in `Sums`.
        largest_operand: Largest operand, as in `Sums`.

    Returns:
        Absolute errors; float64, in the magnitude's shape.
    """
    grown = (1.0 + arithmetic.roundoff) ** arithmetic.roundings
    rounding = gamma(terms + arithmetic.extra_terms, arithmetic.accumulation)
    lost = (terms + 1.0) * arithmetic.smallest * (largest_operand + 1.0)
    return (grown - 1.0 + rounding * grown) * magnitude + lost


def gamma(terms: Tensor, roundoff: float) -> Tensor:
    """Return Higham's gamma_n(u) = n u / (1 - n u); infinite if n u >= 1, where no bound holds."""
    product = terms * roundoff
    return torch.where(product < 1.0, product / (1.0 - product), torch.inf)
