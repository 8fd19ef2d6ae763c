"""The floor: the least time that a GPU can need for a problem."""

from __future__ import annotations

import pytest
import torch

from harness.problems.discovery import discover
from harness.problems.grid import Case, cases_for
from harness.problems.problem import load
from harness.speed.floor import LeastWork, Rates, least_work
from tests.support import REFERENCE, SUBMISSIONS

PROBLEM = load(REFERENCE / "conv_transpose1d.py")
(SUBMISSION,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions


@pytest.mark.parametrize("case", cases_for(PROBLEM, SUBMISSION)[1:], ids=lambda case: case.id)
def test_flops_are_those_of_terms_that_exist(case: Case) -> None:
    """The floor's operations are two for each product that the reference sums.

    The test counts the products by the reference's output for weights and inputs of 1.
    """
    model = PROBLEM.model(**{**case.arguments, "bias": False}).double()
    torch.nn.init.ones_(next(model.parameters()))
    x = torch.ones(case.input_shapes[0], dtype=torch.float64)
    with torch.no_grad():
        terms = int(model(x).sum())
    assert least_work(PROBLEM, case, 0, 0).flops == 2 * terms


def test_bytes_are_read_and_written_once() -> None:
    """The floor's bytes are those of input, weights and output, once each."""
    case = cases_for(PROBLEM, SUBMISSION)[0]
    elements = case.input_shapes[0][0] * case.input_shapes[0][1] * case.input_shapes[0][2]
    assert least_work(PROBLEM, case, 100, 28).bytes == 4 * elements + 100 + 28


def test_the_slower_of_moving_and_computing_counts() -> None:
    """The floor is the longer of two times: moving the data, and computing; they may overlap."""
    rates = Rates(bytes_per_second=1e9, flops_per_second=1e12)
    assert LeastWork(10**6, 10**6).floor_ms(rates) == pytest.approx(1.0)
    assert LeastWork(10**6, 10**10).floor_ms(rates) == pytest.approx(10.0)
