"""The old versions of submissions (the base): files to run again, or records of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.problems.discovery import Submission
from harness.records.report import Report
from harness.speed.result import SpeedResult
from harness.system.errors import HarnessError

Key = tuple[str, str]
"""Names of a submission and a problem."""


@dataclass(frozen=True)
class Before:
    """One submission on one problem in the old version, as a file or as recorded results.

    Attributes:
        content_hash: SHA-256 of the submission's file.
        problem_hash: SHA-256 of the reference's file; empty if the old version's reference differs
            from the present one or is missing.
        submission: The submission's old file, if it is available to be run again.
        report: The recorded report of a check, if there is one.
        result: The recorded speed result, if there is one.
    """

    content_hash: str
    problem_hash: str
    submission: Submission | None = None
    report: Report | None = None
    result: SpeedResult | None = None


class RecordError(HarnessError, ValueError):
    """A file of recorded results cannot be used; the message is one line that says why."""


def recorded(path: Path) -> Mapping[Key, Before]:
    """Read recorded reports and speed results, and return them by names of submission and problem.

    Each line of the file is one report (`harness check --json`) or one speed result. For each
    submission and problem, the last report is used, with the newest speed result that has the
    report's `content_hash`. If there is no report, the newest speed result is used.

    Raises:
        RecordError: A line is neither a report nor a speed result, or the file cannot be read.
    """
    found_there = list(records(path))
    found: dict[Key, Before] = {}
    for report in (record for record in found_there if isinstance(record, Report)):
        key = (report.submission, report.problem)
        found[key] = Before(report.content_hash, report.problem_hash, report=report)
    results = [record for record in found_there if isinstance(record, SpeedResult)]
    for result in sorted(results, key=lambda result: result.measured_at):
        key = (result.submission, result.problem)
        before = found.get(key)
        if before is None or before.report is None:
            found[key] = Before(result.content_hash, result.problem_hash, result=result)
        elif before.content_hash == result.content_hash:
            found[key] = replace(before, result=result)
    return found


def records(path: Path) -> Iterator[Report | SpeedResult]:
    """Yield the reports and speed results of a file that has one JSON object on each line.

    Raises:
        RecordError: A line is neither a report nor a speed result, or the file cannot be read.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise RecordError(
                f"{path}: line {number} is neither a report nor a speed result; --base takes a git "
                "revision, a file of `harness check --json`, or one of results/"
            )
        try:
            # A report has cases; a speed result does not.
            yield (Report if "cases" in record else SpeedResult).from_json(line)
        except (ValueError, TypeError) as error:
            raise RecordError(
                f"{path}: line {number} is neither a report nor a speed result: {error}"
            ) from None
