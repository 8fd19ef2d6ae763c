"""The checksum that every timed call's output must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from harness.problems.discovery import discover
from harness.problems.families import named
from harness.problems.grid import Case, cases_for
from harness.problems.problem import load
from harness.problems.values import runs_for, values_for
from harness.records.comparison import Precision
from harness.speed.verify import Checksum
from tests.support import REFERENCE, SUBMISSIONS

CPU = torch.device("cpu")
_DRAWS = 8


@dataclass(frozen=True)
class Right:
    """A case with weights, inputs in [0, 1) and the reference's output in float32."""

    case: Case
    weights: Mapping[str, Tensor]
    x: Tensor
    y: Tensor

    def error(self, y: Tensor, precision: Precision = "fp32") -> float:
        """Return the error of an output's checksum, divided by what a precision class allows."""
        return self.checksum(precision).error(self.x, y)

    def checksum(self, precision: Precision = "fp32") -> Checksum:
        """Return a checksum with new random signs, for outputs of the case."""
        linear_map = named(self.case.family).linear_map(self.case, self.weights, CPU)
        assert linear_map is not None
        return Checksum(linear_map, self.y.shape, precision, CPU)

    def largest_error(self, y: Tensor, precision: Precision = "fp32") -> float:
        """Return the largest error of checksums with eight choices of random signs.

        A single choice is not enough: under about one of a hundred, the errors nearly cancel.
        """
        return max(self.error(y, precision) for _ in range(_DRAWS))


def right(wanted: str) -> Right:
    """Return weights, inputs and right output of the case whose id begins with `wanted`."""
    problem = load(REFERENCE / "conv_transpose1d.py")
    (submission,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions
    case = next(case for case in cases_for(problem, submission) if case.id.startswith(wanted))
    weights = values_for(problem, case, runs_for(problem)[0]).weights
    model = problem.model(**case.arguments)
    model.load_state_dict(dict(weights))
    shape = (4, *case.input_shapes[0][1:])
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return Right(case, weights, x, model(x))


def ids() -> list[str]:
    problem = load(REFERENCE / "conv_transpose1d.py")
    (submission,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions
    return [case.id for case in cases_for(problem, submission)]


@pytest.mark.parametrize("case_id", ids())
def test_right_outputs_pass(case_id: str) -> None:
    """The checksum of a right float32 output has at most half of the allowed error in each case."""
    found = right(case_id)
    assert found.error(found.y) < 0.5


def test_few_wrong_elements_of_a_small_output_are_seen() -> None:
    """A checksum detects one element of a small output that is wrong by 1."""
    found = right("reduced")
    wrong = found.y.clone()
    wrong[2, 5, 7] += 1
    assert found.error(wrong) > 1


def test_a_row_of_another_input_is_seen() -> None:
    """A checksum detects exchanged rows of the batch, because each row has a sum of its own."""
    found = right("reduced")
    assert found.error(found.y.flip(0)) > 1


def test_what_is_not_finite_is_seen() -> None:
    """A NaN in the output makes the checksum's error NaN, which is not within any bound."""
    found = right("reduced")
    wrong = found.y.clone()
    wrong[0, 0, 0] = torch.nan
    assert not found.error(wrong) <= 1


def test_half_precision_passes_as_such_and_not_as_float32() -> None:
    """An output with a relative error of 2**-6 is within the bound of bf16, but not of fp32."""
    found = right("reduced")
    coarse = found.y * (1 + 2.0**-6)
    assert found.largest_error(coarse, "fp32") > 1
    assert found.error(coarse, "bf16") < 1


def test_signs_cannot_be_foretold() -> None:
    """A checksum detects errors that cancel when multiplied by signs of torch's default generator.

    A submission cannot predict the signs of the checksum.
    """
    found = right("reduced")
    shape = found.y.shape[1:]
    torch.manual_seed(0)
    foretold = torch.randint(0, 2, shape, dtype=torch.int8) * 2 - 1
    cancelling = foretold * (torch.arange(foretold.numel()).reshape(shape) % 2 * 2 - 1)
    assert abs(int((foretold * cancelling).sum())) <= 1
    torch.manual_seed(0)
    assert found.largest_error(found.y + 10 * cancelling) > 1


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_bounds_grow_with_the_inputs(factor: float) -> None:
    """A checksum's allowed error grows with the inputs, but is never less than for inputs of 1."""
    one = right(ids()[3])
    checksum = one.checksum()
    model = load(REFERENCE / "conv_transpose1d.py").model(**one.case.arguments)
    model.load_state_dict(dict(one.weights))
    with torch.no_grad():
        y = model(factor * one.x)
    assert checksum.error(factor * one.x, y) < 1
    y[0, 0, 0] += max(1.0, factor)
    assert checksum.error(factor * one.x, y) > 1
