"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness import escape
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
_DETAIL_COLUMNS = 160


def one_line(report: Report) -> str:
    """The verdict, its reason, the numbers of cases and, for what passed, how precise it is."""
    counts = ", ".join(f"{n} {kind}" for kind in _COUNTED if (n := report.count(kind)))
    head = f"{report.submission} on {report.problem}: {report.verdict}"
    if report.verdict == "passed":
        worst = f", worst error {report.worst:.2g} of the fp32 bound" if report.worst else ""
        share = "" if report.own_work in (None, 1.0) else f", {_own(report.own_work)}"
        bits = "" if report.is_deterministic else ", nondeterministic"
        return escape.one_line(f"{head}: {counts}; {report.precision}{worst}{share}{bits}")
    some_ran = report.count("not run") < len(report.cases)
    return escape.one_line(f"{head}: {report.message}" + (f" ({counts})" if some_ran else ""))


def _own(share: float | None) -> str:
    return f"{share:.1%} of the work by its own kernels"


def full(report: Report) -> str:
    """The verdict and what leads to its reason: the smallest failure, the pattern, the findings."""
    explained = (f"  {escape.printable(line)}" for line in _explanation(report))
    return "\n".join((one_line(report), *explained))


def _explanation(report: Report) -> Iterator[str]:
    stopped = _first_stopped(report)
    if stopped:
        yield from _of_case("first such case", stopped)
    if report.smallest_failure:
        failure = report.case(report.smallest_failure)
        if failure.diagnosis:
            yield f"diagnosis: {failure.diagnosis}"
        if report.shared:
            yield f"pattern: {report.shared}"
        yield from _of_case("smallest failing case", failure)
    yield from _shortened(report.detail)
    for note in report.notes:
        yield f"note: {note}"
    if report.verdict not in ("passed", "not run"):
        shown = report.smallest_failure or (stopped.id if stopped else "")
        yield f"replay: --seed {report.seed}" + (f" --case {shown}" if shown else "")


def _first_stopped(report: Report) -> CaseReport | None:
    """The case whose verdict is all of them's, where that is graver than wrong."""
    if report.verdict in ("passed", "failed"):
        return None
    return next((case for case in report.cases if case.verdict == report.verdict), None)


def _of_case(which: str, case: CaseReport) -> Iterator[str]:
    yield f"{which}: {case.id} ({case.label})"
    for line in case_lines(case):
        yield f"  {line}"


def case_lines(case: CaseReport) -> Iterator[str]:
    """What is known about one case beside its verdict and its diagnosis, a line each."""
    arguments = ", ".join(f"{name}={value}" for name, value in case.arguments.items())
    shapes = ", ".join(str(tuple(shape)) for shape in case.input_shapes)
    yield f"ModelNew({arguments}) on input {shapes}"
    yield case.message or case.verdict
    mismatch = case.comparison and case.comparison.mismatch
    if mismatch:
        if mismatch.message != case.message:
            yield f"output: {mismatch.message}"
        if mismatch.index is not None:
            yield (
                f"first wrong index {list(mismatch.index)}: expected {mismatch.expected}, "
                f"got {mismatch.actual}"
            )
        yield f"wrong in the runs: {', '.join(case.wrong_runs)}"
    for finding in _others(case):
        yield describe_finding(finding)
    yield from _shortened(case.detail)


def _others(case: CaseReport) -> Iterator[Mapping[str, Any]]:
    """The findings that the case's message does not tell already."""
    for finding in case.findings:
        if describe_finding(finding) != case.message:
            yield finding


def _shortened(detail: str) -> Iterator[str]:
    lines = detail.splitlines()
    for line in lines[:_DETAIL_LINES]:
        yield line if len(line) <= _DETAIL_COLUMNS else f"{line[:_DETAIL_COLUMNS]} ..."
    if len(lines) > _DETAIL_LINES:
        yield f"... and {len(lines) - _DETAIL_LINES} more lines (--json has them all)"
