"""What several tests use: the command line as a process, and the repository's own files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from harness import interpreter
from harness.report import Report

ROOT = Path(__file__).resolve().parents[1]
SUBMISSIONS = ROOT / "submissions"
REFERENCE = ROOT / "reference"
PLUGIN = "harness.pytest_plugin"


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str


def run(command: Sequence[str], folder: Path) -> Outcome:
    """Run a command in a folder."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=interpreter.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def harness(*arguments: str | Path, folder: Path) -> Outcome:
    """Run `harness ARGUMENTS` in a folder."""
    return run(interpreter.command("harness.cli", *map(str, arguments)), folder)


def pytest_(*arguments: str | Path, folder: Path) -> Outcome:
    """Run `pytest ARGUMENTS` in a folder that knows nothing of this repository."""
    # Where the harness is installed, pytest loads the plugin by itself.
    known = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    load = ("-p", "no:cacheprovider") if known else ("-p", "no:cacheprovider", "-p", PLUGIN)
    return run(interpreter.command("pytest", *load, *map(str, arguments)), folder)


def reports(lines: str) -> dict[str, Report]:
    """The reports of `--json`, by submission."""
    return {report.submission: report for report in map(Report.from_json, lines.splitlines())}
