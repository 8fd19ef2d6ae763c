"""Bounds on the error of a correct output, derived from the arithmetic that computes it.

The bounds are those of Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., SIAM 2002),
section 3.1. A sum of n products w x is evaluated in any order with unit roundoff u. The result
differs from the exact sum by at most gamma_n(u) * sum |w| |x|, where gamma_n(u) = n u / (1 - n u).
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
    """A call of a reference, traced into a graph of torch's core operators.

    Attributes:
        graph: The graph that `rounding.propagate.trace` returned.
        tensors: Arguments of the graph: weights, other tensors of the model, and inputs;
            floating-point ones are float64.
        names: The reference's name of each argument of the graph.
    """

    graph: GraphModule
    tensors: Sequence[Tensor]
    names: Sequence[str]


class Instance(Protocol):
    """A `Model` that was built for one configuration, callable with any weights and inputs."""

    @property
    def output_dtype(self) -> torch.dtype:
        """The dtype that a submission's output must have if the output is floating point."""

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return the output, computed with all floating-point weights and inputs in `dtype`."""

    def traced(self, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Traced:
        """Trace a call into a graph of torch's core operators; return the graph and its arguments.

        Raises:
            harness.problems.rounding.tracked.NoRuleError: The call cannot be traced.
        """


@dataclass(frozen=True)
class Arithmetic:
    """The rounding errors that a sum of products makes in one number format.

    Attributes:
        roundoff: Unit roundoff of the format.
        roundings: Number of roundings to the format that affect a product: 0, 2 (both operands), or
            3 (both operands and the output).
        accumulation: Unit roundoff with which the products and their sum are computed.
        extra_terms: A number that is added to n in gamma_n(`accumulation`). It admits operands that
            are split into several TF32 numbers (3xTF32).
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
    """A correct output, with bounds on the error that a submission's output may have."""

    @property
    def value(self) -> Tensor:
        """The correct output, exact up to float64's rounding.

        Its dtype is float64; an output that is not floating point keeps its own dtype.
        """

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that a submission's output must have."""

    @property
    def estimated(self) -> str:
        """The reason why the error bound is only an estimate; empty if the bound is rigorous."""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Return the largest error that a computation in `arithmetic` may have in each element.

        The errors are absolute; float64, in the output's shape.
        """

    @property
    def tried(self) -> Tensor | None:
        """The largest error of each element in a few trials of random rounding; None if unknown.

        A trial changes each result of an operator at random, by at most the rounding error of
        bfloat16. The errors are float64, in the output's shape.
        """


@dataclass(frozen=True)
class Sums:
    """An `Expected` output whose elements are sums of products.

    Attributes:
        value: The output, exact up to float64's rounding; float64.
        magnitude: For each element, the sum of the absolute values of its terms; float64, in the
            output's shape.
        terms: Number of terms in each element's sum, the bias counting as one; float64, in a shape
            that broadcasts to the output's.
        largest_operand: Largest absolute value among the inputs, plus the largest among the
            weights.
        dtype: The dtype that a submission's output must have.
        estimated: The reason why the error bound is only an estimate; empty if the bound is
            rigorous.
    """

    value: Tensor
    magnitude: Tensor
    terms: Tensor
    largest_operand: float
    dtype: torch.dtype
    estimated: str = ""

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Return the largest error that each element may have.

        The result is `largest_error` plus a bound on the float64 error of `value` itself.

        Args:
            arithmetic: The arithmetic in which a submission computes.

        Returns:
            Absolute errors; float64, in the output's shape.
        """
        own = 2.0 * gamma(self.terms, _FLOAT64_ROUNDOFF) * self.magnitude
        return own + largest_error(arithmetic, self.terms, self.magnitude, self.largest_operand)

    @property
    def tried(self) -> None:
        """Always None: the bound of a single sum is tight enough to need no trials."""


def largest_error(
    arithmetic: Arithmetic, terms: Tensor, magnitude: Tensor, largest_operand: float
) -> Tensor:
    """Return the largest error that sums of products may have in an arithmetic.

    For c roundings of unit roundoff v, and n terms that accumulate with unit roundoff u:

        |error| <= ((1 + v)**c - 1 + gamma_n(u) (1 + v)**c) * magnitude

    Operands, products and outputs that are too small for a relative error have an absolute error of
    at most a = `arithmetic.smallest`. To cover these errors, a * (`largest_operand` + 1) is added
    to the bound, once for each term and once for the output.

    Args:
        arithmetic: The arithmetic of the computation.
        terms: Number of terms in each sum, as in `Sums`.
        magnitude: Sum of the absolute values of the terms, as in `Sums`.
        largest_operand: Largest absolute values of both operands, added, as in `Sums`.

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
