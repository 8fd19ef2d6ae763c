"""The command line: output, files and exit status of each command."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import __version__
from harness.problems.discovery import discover
from harness.problems.grid import cases_for
from harness.problems.problem import load
from harness.records.report import SCHEMA, Report
from harness.sandbox import layers
from tests.support import (
    REFERENCE,
    ROOT,
    SUBMISSIONS,
    Outcome,
    harness,
    harness_process,
    page_data,
    reports,
    run,
)

PROBLEM = REFERENCE / "conv_transpose1d.py"
DEFECTS = ROOT / "tests" / "defects"


@dataclass(frozen=True)
class Checked:
    """A folder whose submissions were checked, and the outcome of the command that checked them."""

    folder: Path
    outcome: Outcome


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Run `harness check` on two submissions, in a process of its own, and return the outcome."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "submissions").mkdir()
    for name in ("flat_index", "grid3d"):
        shutil.copy(SUBMISSIONS / f"{name}.py", folder / "submissions")
    options = ("--reference", PROBLEM, "--seed", "7", "--json", "-", "--jobs", "2")
    pages = ("--html", "pages")
    return Checked(folder, harness_process("check", "submissions", *options, *pages, folder=folder))


def test_passing_submissions_give_status_0_and_a_json_line_each(checked: Checked) -> None:
    """`--json -` prints only reports on stdout, one JSON object a line, with the schema number."""
    done = checked.outcome
    assert done.status == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert sorted(line["submission"] for line in lines) == ["flat_index", "grid3d"]
    (data,) = (line for line in lines if line["submission"] == "flat_index")
    assert data["schema"] == SCHEMA
    assert data["verdict"] == "passed"
    assert data["precision"] == "fp32"
    (submission,) = discover([SUBMISSIONS / "flat_index.py"]).submissions
    assert [case["id"] for case in data["cases"]] == [
        case.id for case in cases_for(load(PROBLEM), submission)
    ]
    # Batch, input and output channels, length, taps; an FMA counts as two operations.
    assert data["counters"]["flop"] == 2 * 128 * 128 * 64 * 3 * 2
    assert "flat_index on conv_transpose1d: passed" in done.err
    assert "grid3d on conv_transpose1d: passed" in done.err


def test_pages_are_in_the_folder(checked: Checked) -> None:
    """`--html FOLDER` writes the page of all reports and the leaderboard's page.

    Each page has links to the other one.
    """
    pages = checked.folder / "pages"
    data = page_data(pages / "index.html")
    assert sorted(entry["submission"] for entry in data["entries"]) == ["flat_index", "grid3d"]
    assert all(entry["lines"] and entry["cases"] for entry in data["entries"])
    assert set(data["sources"].values()) == {
        path.read_text() for path in (checked.folder / "submissions").glob("*.py")
    }
    assert 'href="leaderboard.html"' in (pages / "index.html").read_text()
    assert 'href="index.html#grid3d/conv_transpose1d"' in (pages / "leaderboard.html").read_text()


@pytest.mark.thorough
def test_same_seed_gives_the_same_numbers(checked: Checked, tmp_path: Path) -> None:
    """A second run with the same seed gives the same error in each case.

    So a report can be replayed on any machine.
    """
    submission = SUBMISSIONS / "flat_index.py"
    options = ("--reference", PROBLEM, "--seed", "7", "--json", "again")
    done = harness("check", submission, *options, folder=tmp_path)
    assert done.status == 0, done.err
    (line,) = (tmp_path / "again").read_text().splitlines()
    first = [case.worst for case in reports(checked.outcome.out)["flat_index"].cases]
    assert [case.worst for case in Report.from_json(line).cases] == first
    assert any(first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "absent.py"], "absent.py: no such file or folder"),
        (["check", ".", "--reference", "absent.py"], "absent.py"),
        (["check", ".", "--reference", PROBLEM, "--problem", "nothing"], "no such reference"),
        (["check", ".", "--reference", PROBLEM, "--device", "cuda"], "torch sees no GPU here"),
        (["check", ".", "--reference", PROBLEM, "--json", "no/such/file"], "No such file"),
        (["check"], "required"),
        (["frobnicate"], "invalid choice"),
    ],
)
def test_unusable_command_line_gives_status_2(
    tmp_path: Path, arguments: list[str | Path], message: str
) -> None:
    """A command line that cannot be carried out gives one line on stderr and status 2."""
    done = harness(*arguments, folder=tmp_path)
    assert done.status == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_files_that_fit_no_problem_are_named(tmp_path: Path) -> None:
    """If a submission fits no reference, a line names the constructor arguments it requires."""
    (tmp_path / "other.py").write_text(
        "class ModelNew:\n    def __init__(self, width, height):\n        pass\n"
    )
    done = harness("check", "other.py", "--reference", PROBLEM, folder=tmp_path)
    assert done.status == 1
    assert "fits no problem" in done.out
    assert "requires width" in done.out


def test_leaderboard_ranks_what_was_checked(checked: Checked, tmp_path: Path) -> None:
    """`harness leaderboard` ranks submissions by their stored reports.

    A submission whose file has changed since its check counts as not checked.
    """
    shutil.copytree(checked.folder, tmp_path, dirs_exist_ok=True)
    board = ("leaderboard", "--reference", PROBLEM, "--format", "github", "--update", "BOARD.md")
    table = harness(*board, folder=tmp_path).out
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    flat, grid = (row for row in rows if row[2:3] in (["flat_index"], ["grid3d"]))
    every = reports(checked.outcome.out)
    for rank, row in (("1", flat), ("2", grid)):
        report = every[row[2]]
        counts = [str(report.count(verdict)) for verdict in ("passed", "declined", "failed")]
        assert row[1:8] == [rank, row[2], "passed", *counts, "fp32"]
    assert flat[-4:] == ["2.92", "100%", "simulator", ""]
    assert "BOARD.md: changed" in table
    assert "BOARD.md: unchanged" in harness(*board, folder=tmp_path).out
    with (tmp_path / "submissions" / "grid3d.py").open("a") as file:
        file.write("# changed\n")
    table = harness(*board, folder=tmp_path).out
    assert "not checked" in table
    assert "BOARD.md: changed" in table
    page = harness("leaderboard", "--reference", PROBLEM, "--format", "html", folder=tmp_path)
    assert page.out.startswith("<!DOCTYPE html>")


def test_doctor_finds_nothing_wrong_here(tmp_path: Path) -> None:
    """`harness doctor` finds nothing wrong on a machine that was set up as the README says.

    A sandbox, git and a browser may be missing; doctor then says what does not work without them.
    """
    done = harness("doctor", folder=tmp_path)
    assert done.status == 0, done.out
    *others, sandbox = done.out.splitlines()
    not_fine = [line for line in others if not line.startswith("ok    ")]
    assert all(line.startswith(("part  git: ", "part  browser: ")) for line in not_fine)
    assert sandbox.startswith("part  sandbox: " if layers.why_not() else "ok    sandbox: ")
    assert "simulator" in done.out


def test_doctor_says_how_to_mend_a_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`harness doctor` prints the command that installs a missing compiler."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    done = harness("doctor", folder=tmp_path)
    assert done.status == 1
    told = "no C++ compiler found; no submission can be evaluated; run: apt-get install g++\n"
    assert f"LACKS C++ compiler: {told}" in done.out
    assert (
        "part  git: git is not installed; harness gate compares with recorded reports only; run"
        in done.out
    )


@dataclass(frozen=True)
class Here:
    """A folder with a reference and one wrong submission, which no command has checked yet."""

    folder: Path

    def harness(self, *arguments: str | Path) -> Outcome:
        """Run a harness command in the folder."""
        return harness(*arguments, folder=self.folder)

    @property
    def kept(self) -> list[Path]:
        """The paths of all reports that were stored, for the leaderboard or for `--resume`."""
        return list((self.folder / ".harness").rglob("*.json"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """Return a folder like a user's repository, with a reference and a wrong submission."""
    for name in ("reference", "submissions"):
        (tmp_path / name).mkdir()
    shutil.copy(PROBLEM, tmp_path / "reference")
    shutil.copy(DEFECTS / "no_divisibility_test.py", tmp_path / "submissions" / "mine.py")
    return Here(tmp_path)


CASE = "k1-s2-p1-b3x1x2-to1"


def test_one_case_alone_is_quick_and_leaves_no_report(here: Here) -> None:
    """`--case` runs one case, prints its full explanation, and stores no report."""
    done = here.harness("check", "submissions", "--case", CASE, "--seed", "1")
    assert done.status == 1, done.err
    assert "mine on conv_transpose1d: failed: 1 of 1 cases failed: " in done.out
    assert f"smallest failing case: {CASE}" in done.out
    assert "diagnosis: no divisibility test" in done.out
    assert "note: 1 case only (--case); no report was kept" in done.out
    assert here.kept == []
    done = here.harness("check", "submissions", "--case", CASE, "--case", "reduced", "--seed", "1")
    words = "failed: own configuration right; 1 of 1 others failed: "
    assert f"mine on conv_transpose1d: {words}" in done.out, done.out
    assert here.kept == []


def test_unknown_case_is_told_with_the_nearest(here: Here) -> None:
    """An unknown name after `--case` is an error that gives the closest names, and nothing runs."""
    done = here.harness("check", "submissions", "--case", CASE, "--case", f"{CASE}0")
    assert done.status == 2
    assert f"--case {CASE}0: no such case in grid quick; the closest names are {CASE}, " in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "options", [("--resume",), ("--json", "reports.jsonl"), ("--junitxml", "reports.xml")]
)
def test_some_cases_are_no_report_to_keep(here: Here, options: tuple[str, ...]) -> None:
    """`--case` refuses options that store reports, since its report does not cover the grid."""
    done = here.harness("check", "submissions", "--case", CASE, *options)
    assert done.status == 2
    assert "leave out --resume, --json and --junitxml" in done.err
    assert not (here.folder / "reports.jsonl").exists()


@pytest.mark.parametrize("command", ["check", "gate"])
@pytest.mark.parametrize(
    ("option", "number"),
    [
        *(("--jobs", number) for number in ("0", "-3", "1.5")),
        *(("--step-seconds", number) for number in ("0", "-1", "nan", "inf", "1e300", "soon")),
    ],
)
def test_numbers_that_cannot_be(here: Here, command: str, option: str, number: str) -> None:
    """An impossible value of `--jobs` or `--step-seconds` is an error before anything runs.

    No report is stored.
    """
    done = here.harness(command, "submissions", option, number)
    assert done.status == 2
    assert f"argument {option}: invalid value '{number}': expected " in done.err
    assert here.kept == []


def test_schedules_are_counted_from_0(here: Here) -> None:
    """A negative `--schedule` is refused: the simulator numbers its orders of execution from 0."""
    done = here.harness("check", "submissions", "--schedule", "-1")
    assert done.status == 2
    assert "argument --schedule: invalid value '-1': expected a whole number" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leaderboard", "nothere"], "harness: nothere: no such file or folder"),
        (["profile", "submissions"], "harness: submissions: is a folder; give the file of one"),
        (["check", ".", "--problme", "y"], "usage: harness check "),
        (["gate", "--base", "HEAD", "--problme", "y"], "usage: harness gate "),
        (["leaderboard", "--problme", "y"], "usage: harness leaderboard "),
    ],
)
def test_what_is_wrong_with_a_command_line(here: Here, arguments: list[str], message: str) -> None:
    """A wrong command line gives status 2, and either an error message or the command's usage.

    The usage is printed for an unknown option.
    """
    done = here.harness(*arguments)
    assert done.status == 2
    assert done.err.startswith(message)


@pytest.mark.parametrize("command", [("check", "."), ("leaderboard", "."), ("profile", "mine.py")])
def test_without_references_the_option_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The error names the option `--reference` if the current folder has no folder reference/."""
    (tmp_path / "mine.py").write_text("class ModelNew:\n    pass\n")
    done = harness(*command, folder=tmp_path)
    assert done.status == 2
    assert done.err == (
        "harness: no folder reference/ in the current folder; name the reference "
        "with --reference PATH\n"
    )


def test_version(tmp_path: Path) -> None:
    """`harness --version` prints the version, which a bug report needs."""
    done = harness("--version", folder=tmp_path)
    assert (done.status, done.out) == (0, f"harness {__version__}\n")


@pytest.mark.parametrize("content", [b"", b"x = '\xe9'\n", "class ModelNew: pass".encode("utf-16")])
def test_file_that_is_no_submission_gives_status_1(here: Here, content: bytes) -> None:
    """A file that is not a submission gives one line of output and status 1."""
    (here.folder / "odd.py").write_bytes(content)
    done = here.harness("check", "odd.py")
    assert done.status == 1
    assert f"\n{here.folder / 'odd.py'}: " in f"\n{done.out}"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--help",), 0, "Check, rank and gate CUDA kernel submissions"),
        (("check", "--help"), 0, "--call-budget"),
        (("check", "absent.py"), 2, "harness: absent.py: no such file or folder"),
        (("check", "."), 2, "no folder reference/ in the current folder"),
        (("gate", "--base", "HEAD"), 2, "no folder reference/ in the current folder"),
        (("profile", "absent.py"), 2, "harness: absent.py: no such file"),
        (("leaderboard", ".", "--reference", "absent"), 2, "--reference absent: no such file"),
        (
            ("check", "--call-budget", "0", "."),
            2,
            "invalid value '0': expected a number greater than 0",
        ),
    ],
)
def test_arguments_are_looked_at_before_torch_is_loaded(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    """Help and usage errors do not import torch, which would take seconds."""
    # This module hides the real torch: any import of it ends the command.
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    done = run(
        [sys.executable, "-m", "harness", *arguments],
        tmp_path,
        PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))),
    )
    assert done.status == status, done
    assert words in done.out + done.err


@pytest.mark.thorough
def test_a_check_does_without_torch_s_compiler(here: Here) -> None:
    """`harness check` does not import torch's compiler, which takes seconds and is not needed."""
    options = ("check", "submissions", "--case", CASE, "--seed", "1")
    done = run([sys.executable, "-X", "importtime", "-m", "harness", *options], here.folder)
    assert "1 of 1 cases failed" in done.out
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "torch" in imported
    assert "torch._dynamo" not in imported
