"""Unusable files and full disks: each gives one line of output, and the harness goes on."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.system import interpreter
from tests.processes import Gate, start
from tests.support import ROOT, Outcome, harness, pytest_, reports, run

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"

PLAIN = """
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        {}return x + x
"""

ODD = {
    "pipe": "is not a regular file",
    "link": "is a link to nowhere.py, which does not exist",
    "huge": "is longer than 256 KiB",
    "latin1": "is not UTF-8: byte 0xe9 in line 1",
    "null": "does not parse: source code string cannot contain null bytes",
    "deep": "does not parse: ",
    "nested": "does not parse in line 1: too many nested parentheses",
    "empty": "defines no ModelNew",
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with eight unusable files called *.py, and three submissions among them."""
    folder = tmp_path_factory.mktemp("odd")
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to("nowhere.py")
    with (folder / "huge.py").open("w") as file:
        file.write("ModelNew")
        file.truncate(1 << 30)
    (folder / "latin1.py").write_bytes(b"# caf\xe9 ModelNew\n")
    (folder / "null.py").write_bytes(b"class ModelNew:\0\n")
    (folder / "deep.py").write_text("ModelNew = " + "-" * 200_000 + "1\n")
    (folder / "nested.py").write_text("ModelNew = " + "(" * 1000 + ")" * 1000 + "\n")
    (folder / "empty.py").write_text("")
    (folder / "folder.py").mkdir()
    (folder / "folder.py" / "inside.py").write_text(PLAIN.format(""))
    (folder / "it's a name.py").write_text(PLAIN.format(""))
    (folder / "it's a\nname\x1b[31m.py").write_text(PLAIN.format(""))
    return folder


@pytest.fixture(scope="module")
def said(odd: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check` on the folder with the unusable files."""
    command = ("check", odd, "--reference", REFERENCE)
    return harness(*command, folder=tmp_path_factory.mktemp("said"))


@pytest.mark.parametrize("name", ODD)
def test_each_odd_file_is_one_line(said: Outcome, name: str) -> None:
    """Each unusable file gets one line, with its path and what is wrong with it."""
    lines = [line for line in said.out.splitlines() if f"/{name}.py: " in line]
    assert len(lines) == 1, said.out
    assert ODD[name] in lines[0]


@pytest.mark.thorough
def test_submissions_among_odd_files_run(said: Outcome) -> None:
    """Submissions run although unusable files lie beside them.

    One submission lies in a folder called folder.py, another has spaces in its name. A third has
    control characters in its name: it is refused, and its name is printed without them.
    """
    assert said.status == 1
    assert said.err == ""
    assert "\x1b" not in said.out
    assert "inside on double: " in said.out
    assert "it's a name on double: " in said.out
    assert "it's a name?[31m.py: has a control character in its name; rename it" in said.out


@pytest.mark.thorough
def test_pytest_reads_odd_files_too(odd: Path, tmp_path: Path) -> None:
    """Pytest reports unusable files, and does not wait for a named pipe.

    An unusable file that mentions ModelNew is a failed test. Others are listed as not collected.
    """
    command = (odd, "--reference", REFERENCE, "--device", "simulator", f"--rootdir={odd}")
    done = pytest_(*command, "-k", "is_submission or speed", folder=tmp_path)
    assert done.status == 1
    for name in ("huge", "latin1", "null", "deep", "nested"):
        assert f"{name}.py: {ODD[name]}" in done.out
    # These files do not mention ModelNew.
    for name in ("pipe", "link", "empty"):
        assert f"not collected: {odd}/{name}.py: {ODD[name]}" in done.out
    assert "Traceback" not in done.out + done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    """Both `harness check` and pytest say in one line that a file cannot be read."""
    (tmp_path / "secret.py").write_text(PLAIN.format(""))
    (tmp_path / "secret.py").chmod(0)
    for done in (
        harness("check", "secret.py", "--reference", REFERENCE, folder=tmp_path),
        pytest_("secret.py", "--reference", REFERENCE, folder=tmp_path),
    ):
        assert done.status == 1
        assert "secret.py: cannot be read: Permission denied" in done.out
        assert "Traceback" not in done.out + done.err


@pytest.mark.thorough
def test_file_that_changes_while_it_is_checked(tmp_path: Path) -> None:
    """A file that changes before the worker process has read it is an error.

    It is then uncertain which text ran. A file that changes later gets a note, because the verdict
    is about the text that ran.
    """
    (tmp_path / "gates").mkdir()
    gates = {name: Gate(tmp_path / "gates" / name) for name in ("changed", "deleted", "later")}
    stop = {name: f"open({str(gate.path)!r}).read()" for name, gate in gates.items()}
    for name in ("changed", "deleted"):
        (tmp_path / f"{name}.py").write_text(f"{stop[name]}\n{PLAIN.format('')}")
    (tmp_path / "later.py").write_text(PLAIN.format(f"{stop['later']}\n        "))
    command = ("check", ".", "--reference", REFERENCE, "--readable", "gates", "--json", "reports")
    running = start(*command, "--jobs", "1", folder=tmp_path)
    for name, gate in gates.items():
        gate.wait_for(running)
        if name == "deleted":
            (tmp_path / "deleted.py").unlink()
        else:
            (tmp_path / f"{name}.py").write_text(PLAIN.format("") + "# other\n")
        # Further calls of forward, if there are any, must not stop.
        gate.path.unlink()
        gate.path.write_text("")
        gate.open()
    outcome = running.outcome()
    found = reports((tmp_path / "reports").read_text())
    for name, became in (("changed", "changed"), ("deleted", "removed")):
        assert found[name].verdict == "error"
        why = f"the file was {became} before the worker read it; check it again"
        assert found[name].message == why
    assert (
        "note: the file was changed during the check; this report is about the content before that"
        in outcome.out
    )
    assert "the file was" not in found["later"].message


BINDINGS = (
    "// {}\n#include <pybind11/pybind11.h>\nint answer() {{ return 42; }}\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("answer", &answer); }}\n'
)
LOADS = """
from torch.utils.cpp_extension import load
load(name="answer", sources=[__file__[: -len("mine.py")] + "mine.cpp"])
"""


@pytest.mark.thorough
def test_two_runs_at_once_build_once(tmp_path: Path) -> None:
    """Only one of two simultaneous runs makes a build that both need, and both get a verdict."""
    (tmp_path / "mine.py").write_text(LOADS + PLAIN.format(""))
    # The folder's name makes the text unique, so that the cache has no build of it.
    (tmp_path / "mine.cpp").write_text(BINDINGS.format(tmp_path))
    command = ("check", "mine.py", "--reference", REFERENCE, "--json")
    both = [start(*command, name, folder=tmp_path) for name in ("one", "two")]
    outcomes = [running.outcome() for running in both]
    found = [reports((tmp_path / name).read_text())["mine"] for name in ("one", "two")]
    assert outcomes[0].status == outcomes[1].status
    assert sorted(report.builds[0].reused for report in found) == [False, True]
    assert found[0].verdict == found[1].verdict != "error"


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    """A verdict is printed even if no report can be written.

    Each path that cannot be written gives one line, and the status is 2.
    """
    (tmp_path / "plain.py").write_text(PLAIN.format(""))
    (tmp_path / ".harness").write_text("in the way")
    command = ("check", "plain.py", "--reference", REFERENCE, "--json", "/dev/full")
    done = harness(*command, folder=tmp_path)
    assert done.status == 2
    assert "plain on double: " in done.out
    assert set(done.err.splitlines()) == {
        f"harness: {where}; nothing more is written there"
        for where in (
            "reports for --resume (.harness/finished): Not a directory",
            "reports for the leaderboard (.harness/reports): Not a directory",
            "--json: No space left on device",
        )
    }


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a small disk that a file has filled completely."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a disk that is soon full")
    try:
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        yield folder
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


@pytest.mark.thorough
def test_full_disk_loses_nothing_that_is_finished(disk: Path) -> None:
    """A full disk loses no finished report: verdicts are shown, and written reports are whole.

    `--resume` reuses the written reports when the disk has room again.
    """
    submissions = disk.parent / "submissions"
    submissions.mkdir()
    for name in ("one", "two", "three"):
        (submissions / f"{name}.py").write_text(PLAIN.format(""))
    own = ("--grid", "own")
    command = ("check", submissions, "--reference", REFERENCE, *own, "--json", "reports")
    # This makes room for one report, or for the folders and no report.
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - 4096)
    full = harness(*command, folder=disk)
    assert full.status == 2
    assert full.out.count(" on double: failed: ") == 3
    ends = ": No space left on device; nothing more is written there"
    assert full.err.splitlines()
    assert all(line.endswith(ends) for line in full.err.splitlines())
    kept = [path for path in (disk / ".harness").rglob("*") if path.is_file()]
    assert all(path.read_text().endswith("}\n") for path in kept)
    os.truncate(disk / "filler", 0)
    resumed = harness(*command, "--resume", folder=disk)
    taken = sum(path.parent.name == "finished" for path in kept)
    assert f"--resume: {taken} of 3 reports were taken over from an earlier run\n" in resumed.out
    assert (resumed.status, resumed.err) == (1, "")
    assert set(reports((disk / "reports").read_text())) == {"one", "two", "three"}


@pytest.mark.thorough
def test_full_disk_under_pytest(disk: Path) -> None:
    """Pytest prints verdicts although the disk is full, and says which reports were not stored."""
    submission = disk.parent / "plain.py"
    submission.write_text(PLAIN.format(""))
    command = (submission, "--reference", REFERENCE, "--device", "simulator")
    done = pytest_(*command, f"--rootdir={disk.parent}", folder=disk)
    assert done.status == 1
    assert "plain on double: failed" in done.out
    for where in ("--harness-resume (.harness/finished)", "the leaderboard (.harness/reports)"):
        line = f"\nharness: reports for {where}: No space left on device; nothing more is written"
        assert done.out.count(line) == 1, done.out


def test_full_cache_is_one_line(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache on a full disk gives one line with the cache's path, also in `harness doctor`."""
    (disk.parent / "plain.py").write_text(PLAIN.format(""))
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    cache = disk / "cuda-submission-harness"
    command = ("check", "plain.py", "--reference", REFERENCE, "--device", "simulator")
    done = harness(*command, folder=disk.parent)
    assert done.status == 2
    lack, remedy = f"{cache}: No space left on device", "run: export XDG_CACHE_HOME=FOLDER\n"
    assert (done.out, done.err) == ("", f"harness: {lack}; {remedy}")
    said = harness("doctor", folder=disk.parent).out
    assert f"LACKS cache: {lack}; no submission can be evaluated; {remedy}" in said


@pytest.mark.thorough
def test_full_temporary_folder_is_one_line(disk: Path) -> None:
    """A full temporary folder gives one line of output, not the many lines of failing compilers."""
    (disk.parent / "plain.py").write_text(PLAIN.format(""))
    command = interpreter.command("harness", "check", "plain.py", "--reference", str(REFERENCE))
    words = ["env", f"TMPDIR={disk}", f"XDG_CACHE_HOME={disk.parent}", *command]
    done = run([*words, "--device", "simulator"], disk.parent)
    said = f"harness: {disk}: No space left on device; run: export TMPDIR=FOLDER\n"
    assert (done.status, done.out, done.err) == (2, "", said)


@pytest.mark.thorough
def test_nobody_can_print(tmp_path: Path) -> None:
    """Standard output on a full disk gives one line and status 2; a closed pipe gives no line."""
    (tmp_path / "notes.py").write_text("")
    words = interpreter.command("harness", "check", ".", "--reference", str(REFERENCE))
    command = shlex.join(words)
    full = run(["/bin/sh", "-c", f"{command} > /dev/full"], tmp_path)
    assert (full.status, full.err) == (2, "harness: standard output: No space left on device\n")
    gone = run(["/bin/bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], tmp_path)
    assert (gone.status, gone.err) == (2, "")
