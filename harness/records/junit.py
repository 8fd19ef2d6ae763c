"""Reports as JUnit XML, with the tests and names that pytest would give them (its xunit2)."""

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
    """One test.

    Attributes:
        submission: Whose it is.
        name: Its name in the submission.
        result: How it ended.
        message: Why, in one line; empty if it passed.
        text: Several lines on the same.
        seconds: How long it took.
    """

    # pytest would take the class for one of tests.
    __test__ = False

    submission: str
    name: str
    result: Result = "passed"
    message: str = ""
    text: str = ""
    seconds: float = 0.0


def no_submission(name: str, message: str) -> TestCase:
    """The test of a file that is no submission."""
    return TestCase(name, "is_submission", "failure", message, message)


def not_evaluated(submission: str, problem: str, message: str) -> TestCase:
    """The test of what the harness itself could not evaluate."""
    return TestCase(submission, f"test_builds[{problem}]", "error", message, message)


def tests_of(report: Report) -> Iterator[TestCase]:
    """The tests of a report: that it builds, and each case."""
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
        # So much was left out, where the whole is unsupported, that nothing is known.
        result = "failure" if report.verdict == "unsupported" else "skipped"
    lines = [] if result == "passed" else list(case_lines(case))
    if result == "failure":
        lines += [f"diagnosis: {case.diagnosis}"] if case.diagnosis else []
        lines += [f"replay: --seed {report.seed} --case {case.id}"]
    text = "\n".join(map(printable, lines))
    return TestCase(report.submission, name, result, message, text, case.seconds)


def junit(tests: Sequence[TestCase]) -> str:
    """All tests as one document."""
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
