"""Kernels that are right and take long: what is left out, and what is said of it."""

from __future__ import annotations

import pytest

from harness.evaluate import evaluate
from harness.problems.discovery import discover
from harness.problems.grid import OWN, cases_for
from harness.problems.problem import load
from harness.records.report import Report
from tests.support import REFERENCE, ROOT, request_for

SCANS = ROOT / "tests" / "slow" / "scans_the_input.py"
PROBLEM = REFERENCE / "conv_transpose1d.py"
LONG = "k3-s1-b1x1x65539-to1"
INSTEAD = "k3-s1-b1x1x259-to256"


def check(*ids: str, call_budget: int) -> Report:
    """The report of the scanning kernel on the problem's own configuration and some others."""
    (submission,) = discover([SCANS]).submissions
    own = {case.id for case in cases_for(load(PROBLEM), submission) if case.label in OWN}
    return evaluate(request_for(SCANS, PROBLEM, *own, *ids, call_budget=call_budget))


@pytest.mark.thorough
def test_case_beyond_the_budget_is_left_out_with_a_note() -> None:
    """What scans 65,541 inputs for as many outputs passes without that case; another stands in."""
    (submission,) = discover([SCANS]).submissions
    others = [case.id for case in cases_for(load(PROBLEM), submission) if case.label not in OWN]
    assert {LONG, INSTEAD} <= set(others)
    # One of ten may be left out.
    short = [name for name in others if name not in (LONG, INSTEAD)][:9]
    report = check(*short, LONG, INSTEAD, call_budget=10**9)
    assert report.verdict == "passed"
    assert report.case(LONG).verdict == "not run"
    assert report.case(INSTEAD).verdict == "passed"
    assert any(
        note.startswith(f"{LONG}: not run: more than 1.") and "--call-budget" in note
        for note in report.notes
    )


@pytest.mark.thorough
def test_who_leaves_out_much_does_not_pass() -> None:
    """Else a kernel that is wrong would only have to be slow there."""
    report = check(LONG, call_budget=10**6)
    assert report.verdict == "unsupported"
    assert report.own_configuration == "passed"
    assert report.message.startswith("the simulator is too slow for it: not run: more than ")
