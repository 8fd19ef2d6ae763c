"""Reports as JUnit XML, with the test names of pytest's own JUnit reports (family `xunit2`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from harness.records.render import case_lines, full
from harness.records.report import CaseReport, Report
from harness.system.escape import one_line, printable

Result = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class TestCase:
    """One test of a JUnit report.

    Attributes:
        submission: Name of the submission.
        name: Name of the test within the submission.
        result: Outcome of the test.
        message: The reason in one line; empty if the test passed.
        text: The reason in several lines.
        seconds: Duration of the test.
    """

    # Without this, pytest would collect the class because of its name.
    __test__ = False

    submission: str
    name: str
    result: Result = "passed"
    message: str = ""
    text: str = ""
    seconds: float = 0.0


def no_submission(name: str, message: str) -> TestCase:
    """Return a failed test that reports a file which is not a submission."""
    return TestCase(name, "is_submission", "failure", message, message)


def not_evaluated(submission: str, problem: str, message: str) -> TestCase:
    """Return a test that reports an error of the harness itself, not of the submission."""
    return TestCase(submission, f"test_builds[{problem}]", "error", message, message)


def tests_of(report: Report) -> Iterator[TestCase]:
    """Yield a report's tests: one for the build, and one for each case."""
    ran = any(case.verdict != "not run" for case in report.cases)
    builds = TestCase(report.submission, f"test_builds[{report.problem}]")
    if ran or report.is_right or report.verdict == "unsupported":
        yield builds
    else:
        yield TestCase(
            builds.submission, builds.name, "failure", report.message, full(report), report.seconds
        )
    for case in report.cases:
        yield _test_of(case, report)


def _test_of(case: CaseReport, report: Report) -> TestCase:
    name = f"test_matches_reference[{report.problem}-{case.id}]"
    result: Result = "failure"
    message = case.message
    if case.verdict == "passed":
        result, message = "passed", ""
    elif case.verdict == "declined":
        result, message = "skipped", f"declined: {case.message}"
    elif case.verdict == "not run":
        # A report is unsupported if too many cases were left out. A skipped case would hide that,
        # so it fails.
        result = "failure" if report.verdict == "unsupported" else "skipped"
    lines = [] if result == "passed" else list(case_lines(case))
    if result == "failure":
        lines += [f"diagnosis: {case.diagnosis}"] if case.diagnosis else []
        lines += [f"replay: --seed {report.seed} --case {case.id}"]
    text = "\n".join(map(printable, lines))
    return TestCase(report.submission, name, result, message, text, case.seconds)


def junit(tests: Sequence[TestCase]) -> str:
    """Return tests as one JUnit XML document."""
    root = ElementTree.Element("testsuites", name="harness check")
    attributes = {
        "name": "harness",
        "tests": str(len(tests)),
        "errors": str(sum(test.result == "error" for test in tests)),
        "failures": str(sum(test.result == "failure" for test in tests)),
        "skipped": str(sum(test.result == "skipped" for test in tests)),
        "time": f"{sum(test.seconds for test in tests):.3f}",
    }
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for test in tests:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            classname=printable(test.submission),
            name=printable(test.name),
            time=f"{test.seconds:.3f}",
        )
        if test.result != "passed":
            why = ElementTree.SubElement(element, test.result, message=one_line(test.message))
            why.text = "\n".join(map(printable, test.text.splitlines()))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"
