"""Reports as JSON and as text."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from harness.finding import Finding
from harness.records.comparison import Comparison, Mismatch
from harness.records.render import full, headline
from harness.records.report import BuildReport, CaseReport, OtherFailure, Report, Verdict, overall
from tests.support import case, report

WRONG = case(
    "failed",
    message="2 of 6 elements are wrong",
    wrong_runs=("uniform",),
    comparison=Comparison(None, 3.5, Mismatch("2 of 6", (0, 1, 2), 1.0, "nan", 2, 6)),
    findings=(
        Finding(
            "memcheck", "4-byte store past the end", "fill", "build/mine.py", 12,
            block=(0, 0, 0), thread=(3, 0, 0), address=1, count=5,
        ),
    ),
    diagnosis="padding ignored: add it",
)  # fmt: skip


def test_json_round_trip() -> None:
    """A report is encoded as one line of JSON, which decodes to an equal report.

    Tuples remain tuples.
    """
    original = report(WRONG, case("passed"), builds=(BuildReport("ext", 1.5, True, "light"),))
    text = original.to_json()
    assert "\n" not in text
    again = Report.from_json(text)
    assert json.loads(again.to_json()) == json.loads(text)
    assert again.case("k3").comparison == WRONG.comparison
    assert again.builds == original.builds


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    """JSON of another schema, or without any schema, raises ValueError that names the schema."""
    with pytest.raises(ValueError, match="schema"):
        Report.from_json(text)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["passed", "declined"], "passed"),
        (["passed", "unsupported"], "unsupported"),
        (["unsupported", "failed", "passed"], "failed"),
        (["error", "failed"], "failed"),
        (["unsupported", "error", "passed"], "error"),
        (["declined"], "declined"),
        ([], "not run"),
        (["not run", "passed"], "unsupported"),
        (["not run", *["passed"] * 9], "passed"),
        (["not run"] * 2, "not run"),
        (["not run", "declined"], "not run"),
    ],
)
def test_gravest_case_decides(verdicts: list[Verdict], expected: Verdict) -> None:
    """A report's verdict is the gravest verdict of its cases.

    Declined cases do not count if there are others. A wrong output is graver than a crash, which
    may occur in one corner only.
    """
    assert overall([case(verdict) for verdict in verdicts]) == expected


def test_text_of_a_failure_leads_to_it() -> None:
    """The text of a failed report has the verdict, the reason, the diagnosis and the findings.

    It also has the options that replay the smallest failing case.
    """
    text = full(report(WRONG, message="2 of 6 elements are wrong", smallest_failure="k3"))
    first, *rest = text.splitlines()
    assert first == "mine on conv: failed: 1 of 1 cases failed: 2 of 6 elements are wrong"
    assert "  diagnosis: padding ignored: add it" in rest
    assert "    first wrong index [0, 1, 2]: expected 1.0, got nan" in rest
    assert "memcheck: 4-byte store past the end in fill at mine.py:12, block (0,0,0)" in text
    assert "and 4 more" in text
    assert "  replay: --seed 7 --case k3" in rest


def test_error_in_one_case_hides_no_failure_of_another() -> None:
    """A report's text shows the smallest failing case first, and then other kinds of failure."""
    broken = OtherFailure(1, "k1", "CUDA error: invalid argument")
    text = full(
        report(
            WRONG, case("error", "k1"), smallest_failure="k3",
            other_failures=(broken,),
        )
    )  # fmt: skip
    told = (
        "diagnosis: padding ignored", "smallest failing case: k3", "expected 1.0, got nan",
        "also, in 1 case such as k1: CUDA error: invalid argument",
    )  # fmt: skip
    places = [text.index(words) for words in told]
    assert places == sorted(places)


OWN_CASE = CaseReport("reduced", "reduced", {}, ((1, 2, 3),), "passed")


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        ("passed", ["passed"] * 4, "own configuration right; all 4 others right"),
        ("passed", [], "own configuration right"),
        ("passed", ["passed"], "own configuration right; the other one right"),
        ("passed", ["failed", "passed", "passed"], "own configuration right; 1 of 3 others failed"),
        (
            "failed",
            ["failed", "error"],
            "own configuration failed; 1 of 2 others failed, 1 in error",
        ),
        ("passed", ["declined"] * 3, "own configuration right; 3 of 3 others declined"),
        ("declined", ["passed"] * 2, "own configuration declined; all 2 others right"),
        (None, ["failed", "passed"], "1 of 2 cases failed"),
    ],
)
def test_line_says_first_how_the_own_configuration_did(
    own: Verdict | None, others: list[Verdict], words: str
) -> None:
    """The first line says whether the own configuration is right, and then counts other cases.

    The own configuration is the case at the reference's own sizes.
    """
    cases = [case(verdict, f"k{number}") for number, verdict in enumerate(others)]
    if own:
        cases.insert(0, replace(OWN_CASE, verdict=own))
    verdict = overall(cases)
    told = report(*cases, verdict=verdict, own_configuration=own, message="why", precision="fp32")
    reason = "; fp32" if verdict == "passed" else ": why"
    assert headline(told) == f"mine on conv: {verdict}: {words}{reason}"


def test_line_of_a_pass_says_how_precise() -> None:
    """The first line of a passed report has the precision class and the worst error."""
    right = case("passed", worst=0.25)
    passed = report(right, right, verdict="passed", precision="fp32")
    assert headline(passed) == (
        "mine on conv: passed: all 2 cases right; fp32, worst error 0.25 of the fp32 bound"
    )


def test_infinite_share_of_a_bound_is_not_told() -> None:
    """The first line omits the worst error if this error, divided by the fp32 bound, is infinite.

    The quotient is infinite if the fp32 bound is 0 but the output has an error. Storing an output
    as float16 makes such errors.
    """
    right = case("passed", worst=math.inf)
    passed = report(right, case("passed", worst=0.5), verdict="passed", precision="fp16")
    assert headline(passed) == "mine on conv: passed: all 2 cases right; fp16"


def test_warning_has_its_line() -> None:
    """The first line counts warnings, and each warning has one line for all of its cases.

    If a failing case is shown in detail, its warnings are shown there.
    """
    warning = replace(WRONG.findings[0], check="racecheck", severity="warning")
    cases = [case("passed", f"k{number}", findings=(warning,)) for number in range(2)]
    passed = report(*cases, case("passed"), verdict="passed", precision="fp32")
    assert headline(passed) == "mine on conv: passed: all 3 cases right; fp32; 1 warning"
    told = "  racecheck (warning): 4-byte store past the end in fill, the first access by "
    told += "block (0,0,0) thread (3,0,0)"
    assert full(passed).splitlines()[1:] == [f"{told} and 9 more; in 2 of 3 cases"]
    failure = replace(WRONG, id="k9", findings=(*WRONG.findings, warning))
    failed = report(*cases, failure, smallest_failure="k9")
    assert full(failed).count("racecheck (warning): ") == 1


@pytest.mark.parametrize("shown", ["k3", ""])
def test_first_line_ends_somewhere(shown: str) -> None:
    """A report's first line has at most 200 columns; a later line has the whole message."""
    long = f"ModelNew has no parameter {', '.join(f'layer{n}.weight' for n in range(200))}"
    failed = report(case("failed", message=long), message=long, smallest_failure=shown)
    first, *rest = full(failed).splitlines()
    assert len(first) == 200
    assert first.endswith(" ...")
    assert sum(long in line for line in rest) == 1
