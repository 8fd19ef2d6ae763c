"""What a run's output must be, and how far from it each precision class may be.

The expected value is the reference in float64 on the very float32 numbers that the submission got.
The bounds are those of Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., SIAM 2002),
section 3.1: a sum of n products, evaluated in any order with unit roundoff u, differs from the
exact one by at most gamma_n(u) * sum |w| |x|, where gamma_n(u) = n u / (1 - n u).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.records.comparison import Precision

_FLOAT64_ROUNDOFF = 2.0**-53
_SMALLEST_NORMAL = 2.0**-126


@dataclass(frozen=True)
class PrecisionClass:
    """How a sum of products loses accuracy in one format.

    Attributes:
        name: As it is reported.
        roundoff: Relative error of rounding a number to the format.
        roundings: How often a product's value is rounded to it: each operand, and the output.
        accumulation: Unit roundoff of the products and their sum.
        extra_terms: What n is increased by, in units of `accumulation`.
        smallest: Absolute error of an operand that is too small for `roundoff` to hold.
    """

    name: Precision
    roundoff: float
    roundings: int
    accumulation: float
    extra_terms: int
    smallest: float


# fp32: 12 more terms admit operands split into TF32 parts (3xTF32: with x = hi + lo + rest, it
# loses lo * lo and two rests, each up to 2**-22 of the product; Ootomo and Yokota, 2022).
# The others: tensor cores add with truncation, after aligning a block of products to its largest
# (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 7:e330, 2021), hence 2**-22. They take TF32
# operands by dropping bits, hence 2**-10 and not 2**-11. TF32 is not a format that outputs are
# stored in. Numbers below the smallest normal may be flushed to zero (-ftz=true), except that
# float16 keeps subnormals, which are 2**-24 apart.
CLASSES: tuple[PrecisionClass, ...] = (
    PrecisionClass("fp32", 0.0, 0, 2.0**-24, 12, _SMALLEST_NORMAL),
    PrecisionClass("tf32", 2.0**-10, 2, 2.0**-22, 0, _SMALLEST_NORMAL),
    PrecisionClass("fp16", 2.0**-11, 3, 2.0**-22, 0, 2.0**-25),
    PrecisionClass("bf16", 2.0**-8, 3, 2.0**-22, 0, _SMALLEST_NORMAL),
)
"""The classes, the tightest first."""


@dataclass(frozen=True)
class Expected:
    """What an output must be.

    Attributes:
        value: The exact output but for float64's rounding; float64, the output's shape.
        magnitude: The sum of the absolute values of the terms; float64, the same shape.
        terms: Number of terms in each output's sum, the bias counting as one; float64, of a shape
            that broadcasts to the output's.
        largest_operand: Largest absolute value among the inputs, plus that among the weights.
        dtype: What a submission's output must be.
    """

    value: Tensor
    magnitude: Tensor
    terms: Tensor
    largest_operand: float
    dtype: torch.dtype

    def bound(self, precision: PrecisionClass) -> Tensor:
        """Give the largest error that each output may have in a precision class.

        That is `largest_error`, to which the oracle's own is added.

        Args:
            precision: One of `CLASSES`.

        Returns:
            Absolute errors, float64, of the output's shape.
        """
        own = 2.0 * gamma(self.terms, _FLOAT64_ROUNDOFF) * self.magnitude
        return own + largest_error(precision, self.terms, self.magnitude, self.largest_operand)


def largest_error(
    precision: PrecisionClass, terms: Tensor, magnitude: Tensor, largest_operand: float
) -> Tensor:
    """Give the largest error that sums of products may have in a precision class.

    With c roundings of unit roundoff v, and n terms that accumulate with unit roundoff u:
    |error| <= ((1 + v)**c - 1 + gamma_n(u) (1 + v)**c) * magnitude, plus what is lost where
    operands, products and the output are too small for a relative error: for operands of
    absolute error a, a (|x| + |w| + 1) for each term and the output.

    Args:
        precision: One of `CLASSES`.
        terms: As in `Expected`.
        magnitude: As in `Expected`.
        largest_operand: As in `Expected`.

    Returns:
        Absolute errors, float64, of the magnitude's shape.
    """
    grown = (1.0 + precision.roundoff) ** precision.roundings
    rounding = gamma(terms + precision.extra_terms, precision.accumulation)
    lost = (terms + 1.0) * precision.smallest * (largest_operand + 1.0)
    return (grown - 1.0 + rounding * grown) * magnitude + lost


def gamma(terms: Tensor, roundoff: float) -> Tensor:
    """Higham's gamma_n(u) = n u / (1 - n u), infinite from n u = 1 on, where it says nothing."""
    product = terms * roundoff
    return torch.where(product < 1.0, product / (1.0 - product), torch.inf)


def expected(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Expected:
    """Compute a run's expected output.

    Args:
        problem: The reference.
        case: The case whose arguments `Model` is built with.
        weights: Float32 weights by their name in `Model`'s state_dict.
        inputs: Inputs of forward. The work happens on their device; a large input can be given in
            slices of the batch, since each row of a batch is computed for itself.

    Returns:
        The expected output. Of a transposed convolution the bounds are rigorous; of another
        reference they are an estimate (see `_estimated`).

    Raises:
        ValueError: The reference gives something other than one tensor.
    """
    if problem.is_transposed_convolution:
        return _rigorous(problem, case, weights, inputs)
    return _estimated(problem, case, weights, inputs)


def _rigorous(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Expected:
    """A transposed convolution is linear: |w| on |x| sums absolute values, ones on ones count."""
    # It keeps nothing of a call: one model serves them all.
    model = problem.build(case.arguments)
    absolute = {name: weight.abs() for name, weight in weights.items()}
    ones = {name: torch.ones_like(weight) for name, weight in weights.items()}
    row = torch.ones_like(inputs[0][:1])
    return Expected(
        value=_run(problem, model, weights, inputs),
        magnitude=_run(problem, model, absolute, [inputs[0].abs()]),
        terms=_run(problem, model, ones, [row]).round(),
        largest_operand=_largest(inputs) + _largest(weights.values()),
        dtype=torch.float32,
    )


def _estimated(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Expected:
    """Judge by the reference's own float32 error; generous, and not rigorous.

    The largest error e that the reference itself makes in float32 stands for a magnitude of e / u,
    beside each output's own. Fed to the formula of the classes with one term, that allows 13 times
    the reference's error in fp32, and roughly 3 v / u times it where operands are rounded to v.
    """
    value = _run(problem, problem.build(case.arguments), weights, inputs)
    single = _run(problem, problem.build(case.arguments), weights, inputs, torch.float32)
    error = (single.double() - value).abs()
    largest_error = float(error[error.isfinite()].max()) if error.isfinite().any() else 0.0
    return Expected(
        value=value,
        magnitude=value.abs() + largest_error * 2.0**24,
        terms=torch.ones((), dtype=torch.float64, device=value.device),
        largest_operand=1.0,
        dtype=single.dtype,
    )


def _largest(tensors: Iterable[Tensor]) -> float:
    return max((float(tensor.abs().max()) for tensor in tensors), default=0.0)


def _run(
    problem: Problem,
    model: nn.Module,
    weights: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Run `Model` with these weights, every floating-point number converted to `dtype`."""
    model.to(dtype=dtype).load_state_dict(dict(weights))
    model.to(device=inputs[0].device, dtype=dtype)
    with torch.no_grad():
        output = model(*(x.to(dtype) if x.is_floating_point() else x for x in inputs))
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{problem.path}: forward gives {type(output).__name__}; only one tensor is supported"
        )
    return output
