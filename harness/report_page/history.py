"""Versions of a submission's file, with the gate's verdict on each change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.gate import git
from harness.gate.decision import Change
from harness.gate.settings import DEFAULT_THRESHOLD
from harness.gate.speed import by_counters, by_results
from harness.records.report import Report
from harness.speed.result import SpeedResult

_MOST_COMMITS = 40


@dataclass(frozen=True)
class Version:
    """One version of a submission's file: one content that the file has had.

    Attributes:
        content_hash: SHA-256 of the file.
        report: The newest report on this content, or None.
        result: The newest speed result of this content, or None.
        change: The gate's verdict on the change from the previous version. The gate compares times
            if both versions were timed, else counters. None if it can compare neither.
    """

    content_hash: str
    report: Report | None = None
    result: SpeedResult | None = None
    change: Change | None = None

    @property
    def known_at(self) -> str:
        """Time of `report` or `result`, whichever is earlier: UTC, ISO 8601; empty if unknown."""
        times = [self.result.measured_at] if self.result else []
        times += [self.report.checked_at] if self.report else []
        return min(filter(None, times), default="")


def versions(reports: Sequence[Report], results: Iterable[SpeedResult]) -> tuple[Version, ...]:
    """Return all versions of one submission on one problem, oldest first.

    The version of the last report comes last, even if an earlier report has the same content.

    Args:
        reports: Reports of the submission on the problem, oldest first.
        results: Speed results of the submission on the problem, oldest first.
    """
    measured = {result.content_hash: result for result in results}
    checked = {report.content_hash: report for report in reports}
    names = {**measured, **checked}
    found = [Version(name, checked.get(name), measured.get(name)) for name in names]
    current = reports[-1].content_hash if reports else ""
    # The present content comes last even if it was known earlier, such as after a revert.
    found.sort(key=lambda version: (version.content_hash == current, version.known_at))
    steps = zip([None, *found], found, strict=False)
    return tuple(replace(after, change=_change(before, after)) for before, after in steps)


def _change(before: Version | None, after: Version) -> Change | None:
    if before is None:
        return None
    if before.result and after.result:
        return by_results(after.result, before.result, DEFAULT_THRESHOLD)
    old, new = (each.report.counters if each.report else None for each in (before, after))
    return by_counters(new, old, DEFAULT_THRESHOLD) if old and new else None


def commits(path: Path) -> Mapping[str, str]:
    """Map each content that a file has had, by its SHA-256, to the first commit that has it.

    Only the last `_MOST_COMMITS` commits of the file are searched. The result is empty if the file
    is not in a git repository or git is missing.
    """
    if not path.is_file():
        return {}
    try:
        told = git.ask(path.parent, "log", f"-{_MOST_COMMITS}", "--format=%h", "--", path.name)
        names = told.split()
        objects = [f"{name}:./{path.name}" for name in names]
        contents = list(git.blobs(path.parent, [each for each in objects if "\n" not in each]))
    except (git.RevisionError, ValueError, IndexError):
        return {}
    return {
        hashlib.sha256(content).hexdigest(): name
        for name, content in zip(names, contents, strict=False)
    }
