"""The judgement of large outputs in slices of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from harness.judging import judge as judge_module
from harness.judging.judge import judge, judge_with_bits
from harness.judging.kept_bits import Rounding
from harness.judging.oracle import expected
from harness.problems.discovery import discover
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem, load
from harness.problems.runs import Run
from harness.problems.values import CaseValues, runs_for, values_for
from harness.records.comparison import Precision
from tests.support import REFERENCE, SUBMISSIONS

CPU = torch.device("cpu")


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every output count as large."""
    monkeypatch.setattr(judge_module, "_MAX_ELEMENTS", 1)


@pytest.fixture
def right() -> tuple[Problem, Case, Run, CaseValues, torch.Tensor]:
    """Return a case of batch 3, its values, and its right output."""
    problem = load(REFERENCE / "conv_transpose1d.py")
    (submission,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions
    case = next(c for c in cases_for(problem, submission) if c.input_shapes[0][0] == 3)
    run = runs_for(problem)[0]
    values = values_for(problem, case, run)
    output = expected(problem, case, values.weights, values.inputs).value.float()
    return problem, case, run, values, output


def test_slices_agree_with_the_whole(
    right: tuple[Problem, Case, Run, CaseValues, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison of an output is the same in one piece and in slices."""
    problem, case, run, values, output = right
    whole = judge(problem, case, run, values, output, CPU)
    monkeypatch.setattr(judge_module, "_MAX_ELEMENTS", 1)
    assert judge(problem, case, run, values, output, CPU) == whole
    assert whole.precision == "fp32"


@pytest.mark.usefixtures("sliced")
def test_wrong_element_is_placed_in_the_whole(
    right: tuple[Problem, Case, Run, CaseValues, torch.Tensor],
) -> None:
    """The first wrong index counts from the start of the batch, not from the start of a slice."""
    problem, case, run, values, output = right
    output[2, 0, 0] += 100
    found = judge(problem, case, run, values, output, CPU)
    assert found.precision is None
    assert found.mismatch is not None
    assert found.mismatch.index == (2, 0, 0)
    assert (found.mismatch.count, found.mismatch.total) == (1, output.numel())


@pytest.mark.usefixtures("sliced")
def test_loosest_slice_decides_the_class(
    right: tuple[Problem, Case, Run, CaseValues, torch.Tensor],
) -> None:
    """If one row of an output has bfloat16 precision, the whole output has that class."""
    problem, case, run, values, output = right
    output[1] = output[1].bfloat16().float()
    found = judge(problem, case, run, values, output, CPU)
    assert found.precision in ("fp16", "bf16", "tf32")


@pytest.mark.usefixtures("sliced")
def test_wrong_shape_is_told(right: tuple[Problem, Case, Run, CaseValues, torch.Tensor]) -> None:
    """An output that is too long fails with a message about the shape, in slices, too."""
    problem, case, run, values, output = right
    found = judge(problem, case, run, values, torch.cat([output, output], -1), CPU)
    assert found.mismatch is not None
    assert found.mismatch.index is None
    assert "shape" in found.mismatch.message


CENTRED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return x - x.mean(0)

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return []
"""


@pytest.mark.usefixtures("sliced")
def test_rows_that_depend_on_one_another_are_judged_together(tmp_path: Path) -> None:
    """Outputs of a reference whose rows may depend on each other are not judged in slices.

    The reference of this test subtracts the mean over the batch, so its rows depend on each other.
    """
    path = tmp_path / "centred.py"
    path.write_text(CENTRED)
    problem = load(path)
    (submission,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions
    (case,) = cases_for(problem, submission, "own")
    run = runs_for(problem)[0]
    values = values_for(problem, case, run)
    output = values.inputs[0] - values.inputs[0].mean(0)
    assert judge(problem, case, run, values, output, CPU).precision == "fp32"


def test_rounded_operands_are_told_beside_the_class() -> None:
    """An output within the fp32 bound gets the class tf32 if an operand was rounded to 17 bits.

    An output of operands that were not rounded has the class fp32.
    """
    problem = load(REFERENCE / "conv_transpose1d.py")
    (submission,) = discover([SUBMISSIONS / "grouped_bias.py"]).submissions
    (case,) = cases_for(problem, submission, "own")
    run = runs_for(problem)[0]
    values = values_for(problem, case, run)
    # Clear the last 7 of 24 bits.
    cut = [(x.view(torch.int32) & -128).view(torch.float32) for x in values.inputs]

    def judged(inputs: Sequence[torch.Tensor]) -> tuple[Precision | None, list[tuple[str, int]]]:
        output = expected(problem, case, values.weights, inputs).value.float()
        assert judge(problem, case, run, values, output, CPU).precision == "fp32"
        comparison, found = judge_with_bits(problem, case, run, values, output, CPU)
        return comparison.precision, [
            (each.operand, each.bits) for each in found if isinstance(each, Rounding)
        ]

    assert judged(values.inputs) == ("fp32", [])
    assert judged(cut) == ("tf32", [("input", 17)])
