"""Tests that the operand which a kernel rounded is found from the errors of its output.

The references are single sums of products, such as a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import honest_errors
import pytest
import torch
from torch import Tensor

from harness.judging.kept_bits import How, Rounding, roundings
from harness.problems.factors import Factor
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem, load
from harness.problems.runs import Run
from harness.problems.values import CaseValues, runs_for, values_for
from tests.judge_alone import every_case
from tests.support import ROOT, thorough_but

REFERENCES = ROOT / "tests" / "references"
# Names of the operands of each reference.
OPERANDS = {
    "batched_matmul": ("a", "b"),
    "conv2d": ("x", "conv.weight"),
    "conv3d": ("x", "conv.weight"),
    "conv_transpose2d": ("x", "conv.weight"),
    "irregular_matmul": ("a", "b"),
    "matmul_of_transposed": ("a", "b"),
    "triangular_matmul": ("a", "b"),
}
# References with repeated numbers, several sums of products, other sums, and functions.
WITHOUT = ("symmetric_matmul", "attention", "linear_gelu", "mean_over_dim", "above_mean", "relu")
BITS = 16
ROUNDED: dict[How, Callable[[Tensor, int], Tensor]] = {
    "nearest": honest_errors.nearest,
    "zero": honest_errors.cut,
}


class Called:
    """A reference with its own sizes, cut down for the simulator, and its inputs and weights."""

    def __init__(self, path: Path) -> None:
        reference = load(path)
        self.case: Case = every_case(reference)[0]
        self.problem: Problem = reference.at(self.case.constants)
        self.new_instance = partial(ModelInstance, self.problem, self.case)

    def plain_runs(self) -> list[Run]:
        """Return the runs (sets of inputs and weights) in whose errors roundings are detected."""
        return [run for run in runs_for(self.problem) if run.is_plain]

    def values(self, run: Run) -> CaseValues:
        """Return the inputs and weights of a run."""
        return values_for(self.problem, self.case, run)

    def factors(self, values: CaseValues) -> list[Factor]:
        """Return the operands that the harness finds in the reference's sum of products."""
        family, given = self.problem.family, (values.weights, values.inputs)
        return [*family.factors(self.new_instance, self.case, *given)]

    def found(self, values: CaseValues, used: CaseValues) -> tuple[Rounding, ...]:
        """Return the operands that the harness finds to be rounded, with their bits and direction.

        The harness looks for roundings in the difference of two outputs of the reference: the
        float32 output for `used`, and the expected output, which is for `values`.
        """
        right = self.new_instance()(values.weights, values.inputs)
        single = self.new_instance()(used.weights, used.inputs, torch.float32)
        return roundings(self.factors(values), single.double() - right)


def rounded(
    values: CaseValues, operands: Sequence[str], names: Sequence[str], how: How
) -> CaseValues:
    """Return values in which some operands are rounded to 16 bits.

    Args:
        values: The inputs and weights.
        operands: Names of the operands to round.
        names: Names of the reference's operands. The inputs come first, in the order of
            `values.inputs`.
        how: Direction of the rounding.
    """
    inputs = [*values.inputs]
    weights = dict(values.weights)
    for name in operands:
        if name in weights:
            weights[name] = ROUNDED[how](weights[name], BITS)
        else:
            place = names.index(name)
            inputs[place] = ROUNDED[how](inputs[place], BITS)
    return CaseValues(weights=weights, inputs=tuple(inputs))


@pytest.mark.parametrize("how", ROUNDED)
@pytest.mark.parametrize("name", thorough_but({"irregular_matmul"}, OPERANDS))
def test_rounded_operands_are_named(name: str, how: How) -> None:
    """Each operand rounded to 16 bits is found, with its bits and direction, in every plain run.

    If no operand is rounded, nothing is found.
    """
    called = Called(REFERENCES / f"{name}.py")
    runs, operands = called.plain_runs(), OPERANDS[name]
    assert runs
    for run in runs:
        values = called.values(run)
        assert not called.found(values, values)
        for which in (operands[:1], operands[1:], operands):
            told = called.found(values, rounded(values, which, operands, how))
            found = {each.operand: (each.bits, each.how) for each in told}
            assert found == dict.fromkeys(which, (BITS, how)), run


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_no_sum_of_drawn_products_has_no_operands(name: str) -> None:
    """A reference that is not one sum of products of randomly drawn values has no operands to test.

    For such a reference, the errors of an honest kernel may depend on an operand's last bits.
    """
    called = Called(REFERENCES / f"{name}.py")
    assert not [each for run in called.plain_runs() for each in called.factors(called.values(run))]
