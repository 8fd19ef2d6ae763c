"""Helpers for tests: run commands and pytest, and make requests and sample reports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from harness.cli.main import main
from harness.evaluate import Request
from harness.problems.discovery import Submission, discover
from harness.problems.grid import case_called, cases_for
from harness.problems.problem import load
from harness.records.report import CaseReport, Report, Verdict
from harness.speed.result import SpeedResult, Timing
from harness.system import interpreter

ROOT = Path(__file__).resolve().parents[1]
SUBMISSIONS = ROOT / "submissions"
REFERENCE = ROOT / "reference"
PLUGIN = "harness.pytest_plugin.plugin"


Made = TypeVar("Made")


class OnDemand(dict[str, Made]):
    """A dictionary that makes a name's value with `make(name)` when the name is first looked up."""

    def __init__(self, make: Callable[[str], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Made:
        made = self[name] = self._make(name)
        return made


def thorough_but(quick: Container[str], names: Iterable[str]) -> list[ParameterSet]:
    """Return `names` as parameters of a test, marked `thorough` unless `quick` has them.

    The quick tier of the tests leaves out parameters with this mark.
    """
    return [
        pytest.param(name, marks=[] if name in quick else [pytest.mark.thorough]) for name in names
    ]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a small disk on a new folder; skip the test if mounting is not allowed.

    Args:
        folder: The folder, which must not exist.
        size: The disk's size in mount's notation, such as `4m`.
    """
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a disk that is small")
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


@dataclass(frozen=True)
class Outcome:
    """The result of a finished command.

    Attributes:
        status: The exit status.
        out: The text on standard output.
        err: The text on standard error.
    """

    status: int
    out: str
    err: str


def run(command: Sequence[str], folder: Path, **variables: str) -> Outcome:
    """Run a command in a folder, with further environment variables."""
    # These variables would make pytest a worker of pytest-xdist, which writes no benchmarks.
    inherited = {
        name: value
        for name, value in interpreter.environment().items()
        if not name.startswith("PYTEST_XDIST")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def harness(*arguments: str | Path, folder: Path) -> Outcome:
    """Run `harness ARGUMENTS` in a folder, within this process.

    A new process would spend seconds on the import of torch.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as ended:  # argparse raises it
            status = int(ended.code or 0)
    return Outcome(status, out.getvalue(), err.getvalue())


def harness_process(*arguments: str | Path, folder: Path) -> Outcome:
    """Run `harness ARGUMENTS` in a folder, in a process of its own as users do."""
    return run(interpreter.command("harness", *map(str, arguments)), folder)


def pytest_arguments(*arguments: str | Path) -> list[str]:
    """Return arguments with which pytest loads the plugin in a folder outside this repository."""
    # An installed harness has an entry point, by which pytest loads the plugin itself.
    known = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    load = ("-p", "no:cacheprovider") if known else ("-p", "no:cacheprovider", "-p", PLUGIN)
    return [*load, *map(str, arguments)]


def pytest_(*arguments: str | Path, folder: Path) -> Outcome:
    """Run `pytest ARGUMENTS` in a folder outside this repository, in a process of its own."""
    return run(interpreter.command("pytest", *pytest_arguments(*arguments)), folder)


def discovered(name: str) -> Submission:
    """Return the submission in the file `NAME.py` of the repository's folder submissions/."""
    (found,) = discover([SUBMISSIONS / f"{name}.py"]).submissions
    return found


def request_for(submission: Path, problem: Path, *ids: str, **fields: Any) -> Request:
    """Return a request to evaluate a submission on the quick grid, or on the cases with these ids.

    An id may also name a case outside the grid. The keyword arguments set fields of the request.
    The default device is the simulator.
    """
    asked = Request(submission, problem, **{"device": "simulator", **fields})
    (found,) = discover([submission]).submissions
    loaded = load(problem)
    grid = cases_for(loaded, found, asked.grid, asked.device, seed=asked.seed)
    beyond = (case_called(loaded, found, name, asked.seed) for name in ids)
    listed = (case for case in grid if not ids or case.id in ids)
    cases = (*listed, *(case for case in beyond if case))
    return replace(asked, cases=cases, is_whole=not ids)


def page_data(page: Path) -> dict[str, Any]:
    """Return the JSON data that an HTML page contains for its script."""
    _, _, rest = page.read_text().partition('<script type="application/json" id="data">')
    data: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return data


def reports(lines: str) -> dict[str, Report]:
    """Return the reports in the output of `harness check --json`, by name of the submission."""
    return {report.submission: report for report in map(Report.from_json, lines.splitlines())}


def case(verdict: Verdict, name: str = "k3", **fields: object) -> CaseReport:
    """Return a made-up report of one case, in which `fields` replace the defaults."""
    blank = CaseReport(name, "grid", {"kernel_size": 3}, ((1, 2, 3),), verdict)
    return CaseReport(**{**vars(blank), **fields})


def report(*cases: CaseReport, verdict: Verdict = "failed", **fields: object) -> Report:
    """Return a made-up report of a submission, in which `fields` replace the defaults."""
    blank = Report(
        "mine", "mine.py", "ab", "conv", "cd", "simulator", "quick", 7, {"torch": "2"}, verdict
    )
    return Report(**{**vars(blank), "cases": cases, **fields})


def timing(median_ms: float, spread: float = 0.002, rounds: int = 40) -> Timing:
    """Return a made-up timing, whose samples lie evenly within `median_ms * (1 ± spread)`."""
    steps = [2 * number / (rounds - 1) - 1 for number in range(rounds)]
    samples = tuple(median_ms * (1 + spread * step) for step in steps)
    return Timing(median_ms, (median_ms * (1 - spread / 3), median_ms * (1 + spread / 3)), samples)


def speed_result(submission: str = "mine", median_ms: float = 4.0, **fields: object) -> SpeedResult:
    """Return a made-up speed result on an H200, in which `fields` replace the defaults.

    It has six baselines.
    """
    own = timing(median_ms)
    baselines = {
        "eager fp32": timing(17.9), "eager tf32": timing(4.24),
        "cudnn.benchmark fp32": timing(17.8), "cudnn.benchmark tf32": timing(4.23),
        "torch.compile fp32": timing(18.0), "torch.compile tf32": timing(4.32),
    }  # fmt: skip
    blank = SpeedResult(
        submission, "ab", "conv", "cd", "fp32", own.median_ms, own.interval_ms, own.samples_ms,
        17.8 / median_ms, (17.7 / median_ms, 17.9 / median_ms), "cudnn.benchmark fp32", baselines,
        1.0, 4 << 30, 1 << 38, 21.5, (), 40, 0, "NVIDIA H200", "580.159.04", "13.0", "2.11",
        "9.19", 1980.0, 520.0, 55.0, 4300.0, "0.1.0", "2026-11-21T20:15:00+00:00",
    )  # fmt: skip
    return SpeedResult(**{**vars(blank), **fields})
