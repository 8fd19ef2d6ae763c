"""Submissions of tests/hostile/, which break their own process.

Each of these submissions takes one line of output, and the next submission runs.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.support import ROOT, Outcome, harness, reports

FOLDER = ROOT / "tests" / "hostile"
PROBLEM = ROOT / "reference" / "conv_transpose1d.py"

# The beginning and the end of the line that the command prints for each file.
LINES = {
    "no_model": ("no_model.py: defines no ModelNew", ""),
    "syntax_error": ("syntax_error.py: does not parse in line 8: expected ':'", ""),
    "exit_in_forward": (
        "exit_in_forward on conv_transpose1d: error: own configuration in error; ",
        ": the worker exited with status 0 while running forward",
    ),
    "segfault": (
        "segfault on conv_transpose1d: error: own configuration in error; ",
        ": the worker was killed by SIGSEGV while running forward",
    ),
    "loop_at_import": (
        "loop_at_import on conv_transpose1d: error: no answer within 2 s while importing the "
        "submission; killed",
        "",
    ),
    "raise_at_import": (
        "raise_at_import on conv_transpose1d: error: raises at import: no suitable",
        "",
    ),
    "speaks_in_codes": (
        "speaks_in_codes on conv_transpose1d: failed: own configuration declined; ",
        ": declines the problem's own configuration: ?[2J other: passed \\ud800?",
    ),
    "sys_exit_at_import": ("sys_exit_at_import on conv_transpose1d: error: SystemExit: 0", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which `harness check` runs and stores its reports."""
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    """Return the outcome of `harness check` on all hostile files and one right submission."""
    files = {*FOLDER.glob("*.py"), ROOT / "submissions" / "flat_index.py"}
    options = ("--reference", PROBLEM, "--jobs", "1", "--json")
    # The endless loop is checked alone, so that its short deadline applies to no other file.
    endless = FOLDER / "loop_at_import.py"
    hanging = harness(
        "check", endless, *options, folder / "hanging", "--step-seconds", "2", folder=folder
    )
    others = harness("check", *sorted(files - {endless}), *options, "reports", folder=folder)
    assert hanging.status == 1
    return Outcome(others.status, hanging.out + others.out, hanging.err + others.err)


@pytest.mark.parametrize("name", LINES)
def test_each_is_reported_in_one_line(outcome: Outcome, name: str) -> None:
    """The output has exactly one line with the expected reason for each hostile file."""
    begin, end = LINES[name]
    lines = [line for line in outcome.out.splitlines() if begin in line]
    assert [line.endswith(end) for line in lines] == [True], outcome.out


def test_nothing_moves_the_cursor(outcome: Outcome) -> None:
    """The output has no control character except line breaks."""
    assert not any(unicodedata.category(c) == "Cc" for c in outcome.out if c != "\n")


def test_every_file_has_an_expectation() -> None:
    """Every file of tests/hostile has an expected line of output in this module."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(LINES)


def test_the_others_still_run(outcome: Outcome) -> None:
    """A right submission among the hostile ones passes, and the exit status is 1."""
    assert "flat_index on conv_transpose1d: passed: own configuration right; all " in outcome.out
    assert outcome.status == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("outcome")
def test_worker_that_always_dies_is_given_up(folder: Path) -> None:
    """A worker process that dies in every case is replaced three times.

    The remaining cases are not run, and their messages say why.
    """
    report = reports((folder / "reports").read_text())["exit_in_forward"]
    assert report.count("error") == 4
    left = [case.message for case in report.cases if case.verdict != "error"]
    assert len(left) > 10
    assert set(left) == {"not run: the worker failed 4 times before"}


def test_no_traceback_of_the_harness(outcome: Outcome) -> None:
    """A submission's fault does not appear as a traceback of the harness."""
    assert "Traceback" not in outcome.out + outcome.err
    assert "harness/worker" not in outcome.out + outcome.err


def test_no_process_is_left(outcome: Outcome) -> None:
    """No process of the submission with an endless loop outlives `harness check`."""
    assert outcome.status == 1
    left = [
        command
        for process in Path("/proc").glob("[0-9]*")
        if b"loop_at_import" in (command := _command_line(process))
    ]
    assert left == []


def _command_line(process: Path) -> bytes:
    """Return the command line of a process, or nothing if the process has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


@pytest.mark.thorough
def test_crash_in_some_cases_leaves_the_others(tmp_path: Path) -> None:
    """A worker that dies in one case is replaced, and the other cases get their verdict."""
    text = (ROOT / "submissions" / "flat_index.py").read_text()
    marker = "    def forward("
    assert marker in text
    # Only one case has these shapes.
    only = "x.shape == (3, 1, 2) and self.weight.shape[-1] == 1 and self.stride == 2"
    crash = f"        if {only}:\n            os._exit(3)\n"
    head, _, tail = text.partition(marker)
    signature, _, body = tail.partition("\n")
    path = tmp_path / "flat_index.py"
    path.write_text(f"import os\n{head}{marker}{signature}\n{crash}{body}")
    done = harness("check", path, "--reference", PROBLEM, "--json", "-", folder=tmp_path)
    report = reports(done.out)["flat_index"]
    assert report.verdict == "error"
    assert report.count("error") == 1
    assert report.count("passed") == len(report.cases) - 1 > 10
