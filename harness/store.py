"""Keep the newest report of each submission on each problem, for the leaderboard."""

from __future__ import annotations

import os
from pathlib import Path

from harness.report import Report

FOLDER = Path(".harness") / "reports"
"""Below the folder from which pytest or the command line is called."""


def save(report: Report, folder: Path) -> None:
    """Keep a report; one of the same submission and problem is replaced.

    Raises:
        OSError: it cannot be written.
    """
    path = _path(folder, report.problem, report.submission)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two runs at once must not leave half of each.
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(report.to_json() + "\n")
    fresh.replace(path)


def find(folder: Path, problem: str, submission: str) -> Report | None:
    """The report that was kept, or None where there is none that can be read."""
    try:
        return Report.from_json(_path(folder, problem, submission).read_text())
    except (OSError, ValueError):
        return None


def _path(folder: Path, problem: str, submission: str) -> Path:
    return folder / problem / f"{submission}.json"
