"""Reports as JSON and as text."""

from __future__ import annotations

import json

import pytest

from harness.compare import Comparison, Mismatch
from harness.render import full, one_line
from harness.report import BuildReport, Report, Verdict, overall
from tests.support import case, report

WRONG = case(
    "failed",
    message="2 of 6 elements are wrong",
    wrong_runs=("uniform",),
    comparison=Comparison(None, 3.5, Mismatch("2 of 6", (0, 1, 2), 1.0, "nan", 2, 6)),
    findings=(
        {
            "check": "memcheck", "message": "4-byte store past the end", "kernel": "fill",
            "file": "build/mine.py", "line": 12, "block": [0, 0, 0], "thread": [3, 0, 0],
            "address": 1, "count": 5,
        },
    ),
    diagnosis="padding ignored: add it",
)  # fmt: skip


def test_json_round_trip() -> None:
    """What was written is read back equal, down to tuples, in one line."""
    original = report(WRONG, case("passed"), builds=(BuildReport("ext", 1.5, True, "light"),))
    text = original.to_json()
    assert "\n" not in text
    again = Report.from_json(text)
    assert json.loads(again.to_json()) == json.loads(text)
    assert again.case("k3").comparison == WRONG.comparison
    assert again.builds == original.builds


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    """Another schema, or something else altogether, is an error that says so."""
    with pytest.raises(ValueError, match="schema"):
        Report.from_json(text)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["passed", "declined"], "passed"),
        (["passed", "unsupported"], "unsupported"),
        (["unsupported", "failed", "passed"], "failed"),
        (["failed", "error"], "error"),
        (["declined"], "declined"),
        ([], "not run"),
        (["not run", "passed"], "not run"),
    ],
)
def test_gravest_case_decides(verdicts: list[Verdict], expected: Verdict) -> None:
    """One case that is not right is enough; a refusal is no fault."""
    assert overall([case(verdict) for verdict in verdicts]) == expected


def test_text_of_a_failure_leads_to_it() -> None:
    """The verdict, the reason, the diagnosis, the place in memory and how to replay it."""
    text = full(report(WRONG, message="2 of 6 elements are wrong", smallest_failure="k3"))
    first, *rest = text.splitlines()
    assert first == "mine on conv: failed: 2 of 6 elements are wrong (1 failed)"
    assert "  diagnosis: padding ignored: add it" in rest
    assert "    first wrong index [0, 1, 2]: expected 1.0, got nan" in rest
    assert "memcheck: 4-byte store past the end in fill at mine.py:12, block (0,0,0)" in text
    assert "and 4 more" in text
    assert "  replay: --seed 7 --case k3" in rest


def test_error_in_one_case_hides_no_failure_of_another() -> None:
    """The graver verdict comes first, then what the wrong numbers tell."""
    broken = case("error", "k1", message="CUDA error: invalid argument")
    text = full(report(WRONG, broken, verdict="error", smallest_failure="k3"))
    told = (
        "first such case: k1", "CUDA error: invalid argument", "diagnosis: padding ignored",
        "smallest failing case: k3", "expected 1.0, got nan",
    )  # fmt: skip
    places = [text.index(words) for words in told]
    assert places == sorted(places)


def test_line_of_a_pass_says_how_precise() -> None:
    """Class and worst error stand in the line."""
    passed = report(case("passed", worst=0.25), verdict="passed", precision="fp32")
    assert one_line(passed) == (
        "mine on conv: passed: 1 passed; fp32, worst error 0.25 of the fp32 bound"
    )
