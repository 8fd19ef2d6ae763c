"""The changes that the gate refuses because a submission became less correct."""

from __future__ import annotations

import pytest

from harness.finding import Check, Finding, Severity
from harness.gate.correctness import what_got_worse, what_is_wrong
from harness.records.report import CaseReport, Report
from tests.support import case, report


def finding(severity: Severity, check: Check = "racecheck", file: str = "/x/mine.py") -> Finding:
    """Return a finding (report of a sanitizer) at line 12 of a file."""
    return Finding(
        check, "a race", "k", file, 12, (0, 0, 0), (1, 0, 0), address=0, severity=severity
    )


def passed(*cases: CaseReport) -> Report:
    """Return a report with the verdict `passed` and the given cases."""
    return report(*cases, verdict="passed")


RIGHT = case("passed", precision="fp32")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (
            report(case("failed", message="2 of 6")),
            "k3 passed in the base; its verdict is now failed: 2 of 6",
        ),
        (
            report(case("not run", message="not run: too long"), verdict="passed"),
            "k3 passed in the base; its verdict is now not run: too long",
        ),
        (
            report(case("declined", message="no strides"), verdict="passed"),
            "k3 passed in the base; its verdict is now declined: no strides",
        ),
        (
            report(RIGHT, case("error", "k5", message="boom"), verdict="error", message="boom"),
            "passed in the base; its verdict is now error: boom",
        ),
        (passed(case("passed", precision="tf32")), "the precision class falls from fp32 to tf32"),
        (
            passed(case("passed", precision="fp32", findings=(finding("warning"),))),
            "new finding: racecheck (warning): a race",
        ),
    ],
)
def test_what_is_refused(head: Report, reason: str) -> None:
    """The gate refuses a lost case, a new failing case, a lower class and a new warning."""
    worse = what_got_worse(passed(RIGHT), head)
    assert worse is not None
    assert reason in worse.reason


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (passed(RIGHT), passed(RIGHT)),
        (passed(case("passed", precision="tf32")), passed(RIGHT)),
        (report(case("failed")), report(case("failed"))),
        (report(case("failed"), RIGHT), passed(case("passed", precision="fp32"), RIGHT)),
        (
            passed(case("passed", findings=(finding("warning"),))),
            passed(case("passed", findings=(finding("warning"), finding("info", "synccheck")))),
        ),
        # The problem's own configuration is one case, at its own size on a GPU or cut down.
        (
            passed(case("passed", "native", label="native")),
            passed(case("passed", "reduced", label="reduced")),
        ),
    ],
)
def test_what_is_not(base: Report, head: Report) -> None:
    """The gate accepts a version that is not worse, with old warnings or new information."""
    assert what_got_worse(base, head) is None


def test_own_configuration_that_is_lost_on_another_device() -> None:
    """The gate compares the own configuration of two reports, although its case ids differ.

    The simulator may run that configuration at reduced sizes, and a GPU runs it at native ones.
    """
    base = passed(case("passed", "native", label="native"))
    worse = what_got_worse(base, report(case("failed", "reduced", label="reduced")))
    assert worse is not None
    assert worse.reason.startswith("reduced passed")


def test_line_to_blame_is_the_submissions_own() -> None:
    """A new finding's line is reported only if it is in the submission's file, not in a header."""
    for file, line in (("/x/mine.py", 12), ("/x/vector.cuh", None)):
        head = report(case("failed", findings=(finding("error", "memcheck", file),)))
        worse = what_got_worse(passed(RIGHT), head)
        assert worse is not None
        assert worse.line == line


def test_base_of_which_only_the_class_is_known() -> None:
    """A base that is only a recorded speed counts as passed, with the class of the record."""
    head = passed(case("passed", precision="tf32"))
    as_tf32 = report(*head.cases, verdict="passed", precision="tf32")
    assert what_is_wrong(as_tf32, "tf32") is None
    assert what_is_wrong(as_tf32, None) is None
    worse = what_is_wrong(as_tf32, "fp32")
    assert worse is not None
    assert "falls from fp32 to tf32" in worse.reason
    assert what_is_wrong(report(message="no"), "fp32") is not None
