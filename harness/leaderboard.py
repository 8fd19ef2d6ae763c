"""Tables from reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate, tabulate_formats

from harness import store
from harness.discovery import Submission, fits
from harness.oracle import CLASSES
from harness.problem import Problem
from harness.report import Report

FORMATS: tuple[str, ...] = tuple(tabulate_formats)

_HEADERS = ("rank", "submission", "verdict", "passed", "declined", "failed", "precision", "device")


@dataclass(frozen=True)
class Row:
    """One submission on one problem; `report` is None where it was not checked as it is now."""

    submission: str
    report: Report | None


def rows(problem: Problem, submissions: Iterable[Submission], reports: Path) -> tuple[Row, ...]:
    """The submissions that fit a problem, the best first.

    A report counts only for the very content of submission and problem that it was made of.
    """
    found = []
    for submission in submissions:
        if fits(submission, problem) is not None:
            continue
        report = store.find(reports, problem.name, submission.name)
        if report and (report.content_hash, report.problem_hash) != (
            submission.content_hash,
            problem.content_hash,
        ):
            report = None
        found.append(Row(submission.name, report))
    return tuple(sorted(found, key=_order))


def _order(row: Row) -> tuple[object, ...]:
    """Right before wrong, precise before less precise, general before narrow, then by name."""
    report = row.report
    if report is None:
        return (2, 0, 0, row.submission)
    names = [precision.name for precision in CLASSES]
    precision = names.index(report.precision) if report.precision else len(names)
    return (report.verdict != "passed", precision, -report.count("passed"), row.submission)


def table(found: Sequence[Row], table_format: str) -> str:
    """One problem's table in one of `FORMATS`."""
    lines: list[list[str | int]] = []
    rank = 0
    for row in found:
        report = row.report
        if report is None:
            lines.append(["", row.submission, "not checked", "", "", "", "", ""])
            continue
        passed = report.verdict == "passed"
        rank += passed
        wrong = sum(report.count(kind) for kind in ("failed", "error", "unsupported"))
        lines.append(
            [
                rank if passed else "",
                row.submission,
                report.verdict,
                report.count("passed"),
                report.count("declined"),
                wrong,
                report.precision or "",
                report.device,
            ]
        )
    return tabulate(lines, headers=_HEADERS, tablefmt=table_format)
