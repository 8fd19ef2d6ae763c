"""Processes of the harness that are killed or interrupted at an exactly known moment."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import Gate, Running, Watched, start, worker_of
from tests.support import ROOT, Outcome, harness, pytest_, pytest_arguments, reports

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"

PLAIN = """
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return x + x
"""
STOPS_AT_IMPORT = """
open({gate!r}).read()
"""
STOPS_IN_COMPILER = """
from torch.utils.cpp_extension import load_inline

# A text of its own, lest a build be found in the cache.
load_inline(name="stuck", cpp_sources='#include "{gate}"', functions=[])
"""


def stuck(folder: Path, name: str, text: str) -> Gate:
    """Write a submission that stops when it opens a named pipe, and return the pipe."""
    (folder / "gates").mkdir(exist_ok=True)
    gate = Gate(folder / "gates" / f"{name}.gate")
    (folder / f"{name}.py").write_text(text.format(gate=str(gate.path)) + PLAIN)
    return gate


def options(folder: Path) -> tuple[str, ...]:
    """Return the options of `harness check` and pytest that name the reference and the pipes.

    The folder of the pipes is readable for the submissions, which stop at them.
    """
    return ("--reference", str(REFERENCE), "--readable", str(folder / "gates"))


@dataclass(frozen=True)
class Killed:
    """A run of `harness check` whose processes a test has killed in turn, the main process last.

    Attributes:
        folder: The folder in which the command ran.
        first: The outcome of the killed run.
        kept: The report, as JSON, of the submission that had finished before the first kill.
        resumed: The outcome of a second run, with `--resume`.
        lines: The reports, as JSON, of the second run.
    """

    folder: Path
    first: Outcome
    kept: str
    resumed: Outcome
    lines: list[str]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Check four submissions: one finishes, and each of the others stops and loses a process."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "a_plain.py").write_text(PLAIN)
    gates = [
        stuck(folder, "b_worker", STOPS_AT_IMPORT),
        stuck(folder, "c_evaluator", STOPS_IN_COMPILER),
        stuck(folder, "d_harness", STOPS_IN_COMPILER),
    ]
    command = ("check", ".", *options(folder), "--json")
    running = start(*command, "first", "--jobs", "2", folder=folder)

    # Two run at a time: c_evaluator begins when a_plain ends, because b_worker is stuck.
    gates[0].wait_for(running)
    gates[1].wait_for(running)
    worker, _ = worker_of(running.pid, "b_worker")
    worker.kill()
    gates[0].wait_until_left()
    running.wait_for("b_worker on double: error")

    worker, evaluator = worker_of(running.pid, "c_evaluator")
    evaluator.kill()
    worker.wait_until_gone()
    gates[1].wait_until_left()
    running.wait_for("c_evaluator on double: not evaluated")

    gates[2].wait_for(running)
    everybody = worker_of(running.pid, "d_harness")
    Watched(running.pid).kill()
    for process in everybody:
        process.wait_until_gone()
    gates[2].wait_until_left()
    first = running.outcome()
    kept = (folder / "first").read_text().splitlines()[0]

    for name in ("b_worker", "c_evaluator"):
        (folder / f"{name}.py").unlink()
    (folder / "d_harness.py").write_text(PLAIN)
    resumed = harness(*command, "second", "--resume", folder=folder)
    return Killed(folder, first, kept, resumed, (folder / "second").read_text().splitlines())


@pytest.mark.thorough
def test_killed_worker_is_the_submissions_error(killed: Killed) -> None:
    """A killed worker process is an error of its submission, and the next submission runs."""
    assert "b_worker on double: error: the worker was killed by SIGKILL while" in killed.first.out


@pytest.mark.thorough
def test_killed_evaluator_is_told_and_the_next_one_runs(killed: Killed) -> None:
    """If an evaluator process is killed, its submission gets no verdict, and its children end.

    The other submissions get their verdicts.
    """
    assert "c_evaluator on double: not evaluated: " in killed.first.out
    assert "was killed by SIGKILL; check it again" in killed.first.out


@pytest.mark.thorough
def test_killed_harness_leaves_nobody_and_no_half_line(killed: Killed) -> None:
    """A killed `harness check` leaves no process, and its `--json` file has whole reports only."""
    assert killed.first.status == -9
    assert "Traceback" not in killed.first.err
    assert set(reports((killed.folder / "first").read_text())) == {"a_plain", "b_worker"}


@pytest.mark.thorough
def test_resume_takes_over_what_was_finished(killed: Killed) -> None:
    """`--resume` repeats the finished report unchanged, and runs only the other submissions."""
    assert "--resume: 1 of 2 reports were taken over from an earlier run" in killed.resumed.out
    assert killed.lines[0] == killed.kept
    assert set(reports("\n".join(killed.lines))) == {"a_plain", "d_harness"}
    shown = next(line for line in killed.first.out.splitlines() if line.startswith("a_plain"))
    assert shown in killed.resumed.out.splitlines()


@pytest.mark.thorough
def test_pytest_resumes_what_the_command_finished(killed: Killed) -> None:
    """Pytest's `--harness-resume` reuses reports of `harness check`, unless the seed differs."""
    command = (".", *options(killed.folder), "--harness-resume", "-k", "not speed")
    done = pytest_(*command, folder=killed.folder)
    assert (
        "harness: 2 of 2 reports were taken over from an earlier run (--harness-resume)" in done.out
    )
    verdicts = [json.loads(line)["verdict"] for line in killed.lines]
    assert done.status == (0 if verdicts == ["passed", "passed"] else 1), done.out
    other = pytest_(*command, "--harness-seed", "1", "--collect-only", folder=killed.folder)
    assert "harness: 0 of 2 reports" in other.out


def at_start(folder: Path) -> tuple[Running, Gate]:
    """Start a check that stops at the import of torch; return it and the pipe that stops it."""
    gate = Gate(folder / "torch.gate")
    (folder / "torch.py").write_text(f"open({str(gate.path)!r}).read()\n")
    command = ("check", ".", "--reference", REFERENCE)
    return start(*command, folder=folder, PYTHONPATH=f"{ROOT}:{folder}"), gate


def at_import(folder: Path) -> tuple[Running, Gate]:
    """Start a check that stops where a worker process imports a submission.

    There is a second submission, so that the harness starts evaluator processes. Return the command
    and the pipe that stops it.
    """
    (folder / "plain.py").write_text(PLAIN)
    gate = stuck(folder, "stuck", STOPS_AT_IMPORT)
    return start("check", ".", *options(folder), folder=folder), gate


def in_compiler(folder: Path) -> tuple[Running, Gate]:
    """Start a check that stops where a compiler reads a header of the only submission.

    Return the command and the pipe that stops it.
    """
    gate = stuck(folder, "stuck", STOPS_IN_COMPILER)
    return start("check", ".", *options(folder), folder=folder), gate


def at_table(folder: Path) -> tuple[Running, Gate]:
    """Start `harness leaderboard --update BOARD.md`, which stops where it opens that file.

    Return the command and the pipe that stops it.
    """
    gate = Gate(folder / "BOARD.md")
    command = ("leaderboard", "--reference", REFERENCE, "--update", "BOARD.md", ".")
    return start(*command, folder=folder), gate


def interrupted(running: Running, gate: Gate) -> Outcome:
    """Send Ctrl-C to a command that has stopped at a named pipe, and return its outcome.

    Wait until the stopped process has ended, too.
    """
    gate.wait_for(running)
    running.interrupt()
    gate.wait_until_left()
    return running.outcome()


@pytest.mark.parametrize(
    ("begin", "hint"),
    [
        (at_start, ""),
        (at_import, "; run it again with --resume to continue from here"),
        pytest.param(
            in_compiler,
            "; run it again with --resume to continue from here",
            marks=pytest.mark.thorough,
        ),
        pytest.param(at_table, "", marks=pytest.mark.thorough),
    ],
)
def test_ctrl_c_is_one_line_whenever_it_comes(
    tmp_path: Path, begin: Callable[[Path], tuple[Running, Gate]], hint: str
) -> None:
    """Ctrl-C gives one line and status 130, without a traceback, and ends the stopped process.

    The line says how to continue if submissions were being checked.
    """
    running, gate = begin(tmp_path)
    outcome = interrupted(running, gate)
    assert outcome.status == 130
    assert outcome.err == f"harness: interrupted{hint}\n"
    assert "Traceback" not in outcome.out


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("begin", "known"), [(at_import, "importing"), (in_compiler, "building stuck")]
)
def test_sigterm_loses_nothing_that_is_known(
    tmp_path: Path, begin: Callable[[Path], tuple[Running, Gate]], known: str
) -> None:
    """At SIGTERM, `harness check` prints the step that each evaluation has reached.

    It also says that `--resume` continues the run.
    """
    running, gate = begin(tmp_path)
    gate.wait_for(running)
    os.kill(running.pid, signal.SIGTERM)
    gate.wait_until_left()
    outcome = running.outcome()
    assert outcome.status == 143
    assert outcome.err == "harness: terminated; run it again with --resume to continue from here\n"
    assert f"... stuck on double: {known}; interrupted" in outcome.out.splitlines()


@pytest.mark.thorough
def test_ctrl_c_in_pytest_ends_the_worker_too(tmp_path: Path) -> None:
    """Ctrl-C in pytest ends the current evaluation, and pytest says that it was interrupted."""
    gate = stuck(tmp_path, "stuck", STOPS_AT_IMPORT)
    command = pytest_arguments("stuck.py", *options(tmp_path))
    running = start(*command, folder=tmp_path, module="pytest")
    outcome = interrupted(running, gate)
    assert outcome.status == 2
    assert "KeyboardInterrupt" in outcome.out
    assert "Traceback" not in outcome.err


@pytest.mark.thorough
def test_ctrl_c_while_pytest_writes_its_page_is_no_traceback(tmp_path: Path) -> None:
    """Ctrl-C while pytest writes its HTML page gives status 2 as usual in pytest, and no traceback.

    The reports of finished evaluations are stored nevertheless.
    """
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "results").mkdir()
    (tmp_path / "gates").mkdir()
    # Only the page needs the results, and it is written when everything else is done.
    gate = Gate(tmp_path / "results" / "double.jsonl")
    command = pytest_arguments("plain.py", *options(tmp_path), "--harness-html", "page.html")
    running = start(*command, folder=tmp_path, module="pytest")
    outcome = interrupted(running, gate)
    assert outcome.status == 2
    assert "Traceback" not in outcome.out + outcome.err
    assert list((tmp_path / ".harness" / "reports").rglob("plain.json"))
