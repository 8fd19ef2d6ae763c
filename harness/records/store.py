"""Store of the newest report of each submission on each problem, for the leaderboard."""

from __future__ import annotations

from pathlib import Path

from harness.records.report import Report
from harness.system.files import write_whole

FOLDER = Path(".harness") / "reports"
"""Default folder of the store, relative to the folder in which the command or pytest runs."""


def save(report: Report, folder: Path) -> None:
    """Store a report in place of an older one of the same submission and problem.

    Raises:
        OSError: The report cannot be written.
    """
    write_whole(_path(folder, report.problem, report.submission), report.to_json() + "\n")


def find(folder: Path, problem: str, submission: str) -> Report | None:
    """Return the stored report of a submission on a problem; None if none can be read."""
    return _read(_path(folder, problem, submission))


def every(folder: Path) -> list[Report]:
    """Return all stored reports that can be read, sorted by problem and submission."""
    found = map(_read, sorted(folder.glob("*/*.json")))
    return [report for report in found if report]


def _read(path: Path) -> Report | None:
    try:
        return Report.from_json(path.read_text())
    # A damaged report, or one of another schema version, is treated as missing.
    except (OSError, ValueError):
        return None


def _path(folder: Path, problem: str, submission: str) -> Path:
    return folder / problem / f"{submission}.json"
