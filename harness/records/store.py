"""Keep the newest report of each submission on each problem, for the leaderboard."""

from __future__ import annotations

from pathlib import Path

from harness.records.report import Report
from harness.system.files import write_whole

FOLDER = Path(".harness") / "reports"
"""Below the folder from which pytest or the command line is called."""


def save(report: Report, folder: Path) -> None:
    """Keep a report; one of the same submission and problem is replaced.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(_path(folder, report.problem, report.submission), report.to_json() + "\n")


def find(folder: Path, problem: str, submission: str) -> Report | None:
    """The report that was kept, or None where there is none that can be read."""
    return _read(_path(folder, problem, submission))


def every(folder: Path) -> list[Report]:
    """All reports that were kept and can be read, in the order of their problems' names."""
    found = map(_read, sorted(folder.glob("*/*.json")))
    return [report for report in found if report]


def _read(path: Path) -> Report | None:
    try:
        return Report.from_json(path.read_text())
    except (OSError, ValueError):
        return None


def _path(folder: Path, problem: str, submission: str) -> Path:
    return folder / problem / f"{submission}.json"
