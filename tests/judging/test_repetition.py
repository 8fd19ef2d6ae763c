"""Repeated calls and cases beyond the budget: who keeps outputs is told, and honest work is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.judging.case_outcome import CaseOutcome
from harness.judging.repetition import Repetition
from harness.judging.unexplained import MOST_GROWTH, unexplained
from harness.problems.configuration import ConstructorCall
from harness.problems.grid import Case
from harness.problems.runs import Run
from harness.problems.values import Call
from harness.records.report import Verdict, not_run
from harness.simulator.counters.totals import Totals

RUN = Run("own", "own", "A")
CALLS = (Call("own", RUN), Call("own again", RUN, "again"))
BUDGET = 1 << 20


def work(launches: int, flop: int, requests: int, sectors: int) -> Totals:
    """Return the counters of a call."""
    return Totals(launches, 0, 0, flop, requests, sectors, 0, 0, 0, None, None)


MAIN, PACKING = work(1, 8000, 300, 2400), work(2, 8000, 500, 4000)
TRIED_OUT = work(4, 32000, 1200, 9600)
NOTHING, DECOY = work(0, 0, 0, 0), work(1, 8000, 20, 20)
SMALLER_PATH = work(1, 7000, 280, 2300)


def found(first: Totals, again: Totals, touched: Totals) -> str:
    """Return the finding about three calls, or "". The third is made only if it is asked for."""
    repetition = Repetition(CALLS)
    assert not repetition.add(CALLS[0], first)
    assert not repetition.add(CALLS[1], again)
    if repetition.control is None:
        return ""
    findings = repetition.add(repetition.control, touched)
    return findings[0].message if findings else ""


@pytest.mark.parametrize(
    ("first", "again", "touched"),
    [
        (MAIN, MAIN, MAIN),
        (PACKING, MAIN, MAIN),
        (TRIED_OUT, MAIN, MAIN),
        (MAIN, SMALLER_PATH, MAIN),
        (PACKING, MAIN, SMALLER_PATH),
    ],
    ids=["the same", "weights packed once", "tried out once", "another path", "packed and path"],
)
def test_honest_repetitions_are_no_findings(first: Totals, again: Totals, touched: Totals) -> None:
    """A kernel may pack weights or try out ways in its first call, and takes paths by values."""
    assert found(first, again, touched) == ""


@pytest.mark.parametrize(
    ("again", "less"), [(NOTHING, "0 floating-point"), (DECOY, "20 loads and stores")]
)
def test_kept_output_is_told(again: Totals, less: str) -> None:
    """A repeated call that does less than one with another number has kept its output.

    Arithmetic of no use does not hide it.
    """
    assert less in found(PACKING, again, MAIN)


def outcome(verdict: Verdict, message: str = "", spent: int = 0) -> CaseOutcome:
    """Return the outcome of a case with one call."""
    case = Case(
        id="big",
        label="grid",
        arguments={},
        input_shapes=((4, 512),),
        input_dtypes=("float32",),
        seed=0,
        family="any_reference",
        constructor_call=ConstructorCall((), {}),
    )
    report = replace(not_run(case, message), verdict=verdict, errors={"own": 0.0})
    return CaseOutcome(report, case, spent=spent, is_over_budget=verdict == "not run")


BIG = outcome("not run", "not run: more than the budget")


def test_work_that_grows_cubically_is_only_left_out() -> None:
    """A case stays left out if half its size exceeds a sixteenth of the budget, too.

    Cubic work is an eighth there. So a kernel that is slow for an honest reason is not accused.
    """
    assert MOST_GROWTH > 2**3
    half = outcome("not run", "not run: more than the budget")
    assert unexplained(BIG, half, BUDGET) == BIG


def test_work_without_explanation_is_unsupported() -> None:
    """A case is `unsupported` if half its size takes a small part of the budget."""
    told = unexplained(BIG, outcome("passed", spent=BUDGET // 1000), BUDGET)
    assert told.report.verdict == "unsupported"
    assert "takes more than 1,000 times the work" in told.report.message


def test_wrong_half_decides() -> None:
    """If half the size is wrong, the case has its verdict, and a message with its shape."""
    told = unexplained(BIG, outcome("failed", "wrong"), BUDGET)
    assert told.report.verdict == "failed"
    assert told.report.message == "with inputs of (4, 512): wrong"
