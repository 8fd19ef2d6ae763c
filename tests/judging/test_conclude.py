"""Diagnoses that need all cases of a submission: wrong defaults and uninitialised variables."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness.judging.case_outcome import CaseOutcome
from harness.judging.conclude import unset_variable, wrong_defaults
from harness.judging.picture import WrongOutput
from harness.problems.configuration import ConstructorCall
from harness.problems.grid import Case
from harness.problems.runs import Run
from harness.problems.values import CaseValues
from harness.records.coverage import Coverage
from harness.records.report import Verdict, not_run

ARGUMENTS = {"kernel_size": 3, "stride": 1, "padding": 0}


def outcome(number: int, verdict: Verdict, *left_out: str) -> CaseOutcome:
    """Return the outcome of a case whose constructor call omits some arguments."""
    named = {name: value for name, value in ARGUMENTS.items() if name not in left_out}
    case = Case(
        id=str(number),
        label="grid",
        arguments=ARGUMENTS,
        input_shapes=((1, 2, 3),),
        input_dtypes=("float32",),
        seed=0,
        family="conv_transpose1d",
        constructor_call=ConstructorCall((), named),
    )
    return CaseOutcome(replace(not_run(case, ""), verdict=verdict), case)


FAILED = [outcome(number, "failed", "stride") for number in range(6)]
PASSED = [outcome(10 + number, "passed") for number in range(6)]


def test_default_that_every_failing_case_leaves_out_is_named() -> None:
    """If all failing cases and no passing case omit an argument, its default is named as wrong."""
    said = wrong_defaults(FAILED, [*FAILED, *PASSED])
    assert "every failing case leaves out stride," in said


@pytest.mark.parametrize(
    "others",
    [
        # A failing case passes it; too few cases pass it; many cases that omit it are right.
        [outcome(20, "failed"), *PASSED],
        PASSED[:3],
        [*PASSED, *(outcome(30 + number, "passed", "stride") for number in range(7))],
    ],
)
def test_nothing_is_said_where_it_may_be_chance(others: list[CaseOutcome]) -> None:
    """A wrong default is not named if the failures may have another reason.

    About half of the cases omit an argument, so all failing cases may omit it by chance.
    """
    failed = [*FAILED, *(each for each in others if each.report.verdict == "failed")]
    assert wrong_defaults(failed, [*FAILED, *others]) == ""


def test_two_that_are_left_out_alike_are_not_told_apart() -> None:
    """No default is named if all failing cases leave out the same two arguments."""
    failed = [outcome(number, "failed", "stride", "padding") for number in range(6)]
    assert wrong_defaults(failed, [*failed, *PASSED]) == ""


def no_numbers(unwritten: Tensor) -> CaseOutcome:
    """Return the outcome of a failed case whose output is four NaN, some of them unwritten."""
    wrong = WrongOutput(
        Run("uniform", "uniform", "A"),
        CaseValues({}, ()),
        torch.full((1, 1, 4), torch.nan),
        unwritten.view(1, 1, 4),
        has_gaps=False,
    )
    return replace(outcome(0, "failed"), wrong=wrong)


def test_what_nobody_wrote_comes_from_no_variable() -> None:
    """An uninitialised variable is named only if every wrong output has NaN that a kernel wrote.

    Fresh memory is NaN as well, and a kernel may read uninitialised variables without using them.
    """
    coverage = Coverage(reached=(7, 12), missed=(), unset=(7, 12))
    written, unwritten = torch.zeros(4).bool(), torch.ones(4).bool()
    said = unset_variable([no_numbers(written)], coverage)
    assert said.startswith("uninitialised variable: ")
    assert said.endswith("7, 12.")
    assert unset_variable([no_numbers(written), no_numbers(unwritten)], coverage) == ""
    assert unset_variable([no_numbers(torch.tensor([True, False, True, True]))], coverage)
