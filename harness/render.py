"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.report import CaseReport, Report, Verdict
from harness.verdict import describe_finding

_COUNTED: tuple[Verdict, ...] = (
    "passed",
    "failed",
    "declined",
    "unsupported",
    "error",
    "not run",
)
_DETAIL_LINES = 25


def one_line(report: Report) -> str:
    """The verdict, its reason and the numbers of cases.

    >>> one_line(Report("a", "a.py", "", "p", "", "simulator", "quick", 1, {}, "error", "no luck"))
    'a on p: error: no luck'
    """
    counts = ", ".join(f"{n} {kind}" for kind in _COUNTED if (n := report.count(kind)))
    head = f"{report.submission} on {report.problem}: {report.verdict}"
    if report.verdict == "passed":
        return f"{head}: {counts}; {report.precision}"
    reason = f"{head}: {report.message}"
    return f"{reason} ({counts})" if report.count("not run") < len(report.cases) else reason


def full(report: Report) -> str:
    """The verdict and what leads to its reason: the smallest failure, the pattern, the findings."""
    return "\n".join((one_line(report), *(f"  {line}" for line in _explanation(report))))


def _explanation(report: Report) -> Iterator[str]:
    if report.smallest_failure:
        yield "smallest failing case:"
        for line in case_lines(report.case(report.smallest_failure)):
            yield f"  {line}"
    if report.shared:
        yield f"pattern: {report.shared}"
    other = next((c for c in report.cases if c.verdict in ("error", "unsupported")), None)
    if other and other.verdict == report.verdict:
        yield "first such case:"
        for line in case_lines(other):
            yield f"  {line}"
    for line in _shortened(report.detail):
        yield f"  {line}"
    for note in report.notes:
        yield f"note: {note}"
    if report.verdict not in ("passed", "not run"):
        yield f"replay: --seed {report.seed}"


def case_lines(case: CaseReport) -> Iterator[str]:
    """What is known about one case, a line each."""
    yield f"{case.id} ({case.label}): {case.message or case.verdict}"
    mismatch = case.comparison and case.comparison.mismatch
    if mismatch:
        if mismatch.index is not None:
            yield (
                f"first wrong index {list(mismatch.index)}: expected {mismatch.expected}, "
                f"got {mismatch.actual}"
            )
        if mismatch.message != case.message:
            yield f"output: {mismatch.message}"
        yield f"wrong in the runs: {', '.join(case.wrong_runs)}"
    for finding in _others(case):
        yield describe_finding(finding)
    if case.diagnosis:
        yield f"diagnosis: {case.diagnosis}"
    yield from _shortened(case.detail)


def _others(case: CaseReport) -> Iterator[Mapping[str, Any]]:
    """The findings that the case's message does not tell already."""
    for finding in case.findings:
        if describe_finding(finding) != case.message:
            yield finding


def _shortened(detail: str) -> Iterator[str]:
    lines = detail.splitlines()
    yield from lines[:_DETAIL_LINES]
    if len(lines) > _DETAIL_LINES:
        yield f"... and {len(lines) - _DETAIL_LINES} more lines (--json has them all)"
