"""Machines that cannot evaluate any submission: one line says why, before the first submission."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Client, check
from harness.system.errors import MachineError
from tests.processes import Gate, start
from tests.support import ROOT, harness, pytest_, pytest_arguments, small_disk

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = ROOT / "tests" / "faults" / "honest.py"
NATIVE = ROOT / "harness" / "simulator" / "native"

# This compiler ends as g++ does if the C library's files for linking are missing.
LINKER = """#!/bin/sh
case "$1" in --version) echo "g++ (broken) 1.0"; exit;; esac
echo "/usr/bin/ld: cannot find -lm: No such file or directory" >&2
echo "collect2: error: ld returned 1 exit status" >&2
echo "$@" >> {runs}
exit 1
"""
NO_LIBM = (
    "the harness's own libraries do not compile: cannot find -lm: No such file or directory; "
    "run: apt-get install g++ libc6-dev"
)

WAITS = """
import torch.nn as nn

open({gate!r}).read()

class ModelNew(nn.Module):
    def forward(self, x):
        return x + x
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a git repository with two submissions, one of which has changed since the commit."""
    for name in ("one", "two"):
        shutil.copy(HONEST, tmp_path / f"{name}.py")
    for command in (
        ("init", "-q"),
        ("add", "one.py", "two.py"),
        ("commit", "-q", "-m", "as it is"),
    ):
        named = ("git", "-c", "user.name=n", "-c", "user.email=e@x", *command)
        subprocess.run(named, cwd=tmp_path, check=True)
    with (tmp_path / "one.py").open("a") as file:
        file.write("# changed\n")
    return tmp_path


@pytest.fixture
def no_libm(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a compiler whose linker does not find libm, and return the log of its runs."""
    compiler, runs = here / "bin" / "g++", here / "bin" / "runs"
    compiler.parent.mkdir()
    compiler.write_text(LINKER.format(runs=runs))
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    return runs


COMMANDS = {
    "check": ("check", "one.py", "two.py", "--json", "reports"),
    "check in processes": ("check", "one.py", "two.py", "--engine", "processes"),
    "check on a cluster of its own": ("check", "one.py", "two.py", "--engine", "dask"),
    "gate": ("gate", "one.py", "--base", "HEAD"),
    "profile": ("profile", "one.py"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_ends_with_one_line(here: Path, no_libm: Path, name: str) -> None:
    """Without libm, each command gives status 2 and one line with the linker's message.

    The command compiles each of the harness's own C and C++ sources, and no source twice.
    """
    done = harness(*COMMANDS[name], "--reference", REFERENCE, folder=here)
    assert (done.status, done.err) == (2, f"harness: {NO_LIBM}\n")
    assert " on double: " not in done.out
    runs = no_libm.read_text().splitlines()
    assert len(runs) == len(set(runs))
    tried = {Path(word).name for line in runs for word in line.split()}
    assert {path.name for path in NATIVE.rglob("*") if path.suffix in (".c", ".cpp")} <= tried
    assert not (here / ".harness").exists()
    assert not (here / "reports").exists()


@pytest.mark.parametrize(
    "processes",
    [
        pytest.param((), id="alone"),
        pytest.param(("-n", "1"), id="xdist", marks=pytest.mark.thorough),
    ],
)
def test_pytest_ends_with_one_line(here: Path, no_libm: Path, processes: tuple[str, ...]) -> None:
    """Without libm, pytest gives status 4 and one line before any test, also under pytest-xdist."""
    asked = ("one.py", "two.py", "--reference", REFERENCE)
    done = pytest_(*asked, f"--rootdir={here}", *processes, folder=here)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert (done.out + done.err).count(NO_LIBM) == 1
    assert f"ERROR: {NO_LIBM}\n" in done.err
    assert "no tests ran" in done.out
    assert no_libm.exists()


@pytest.mark.thorough
def test_pytest_does_not_ask_for_what_it_need_not_run(here: Path, no_libm: Path) -> None:
    """Without libm, pytest still runs the user's other tests if `-k` selects no submission."""
    (here / "test_mine.py").write_text("def test_mine():\n    pass\n")
    chosen = ("-k", "test_mine", "--reference", REFERENCE, f"--rootdir={here}")
    done = pytest_(".", *chosen, folder=here)
    assert done.status == 0, done.out
    assert "1 passed" in done.out
    assert not no_libm.exists()


def test_python_interface_raises_it_once(no_libm: Path) -> None:
    """If libm is missing, `harness.check` and `harness.Client` raise the same MachineError."""
    with pytest.raises(MachineError) as one:
        check(HONEST, REFERENCE)
    with pytest.raises(MachineError) as many, Client():
        raise AssertionError("a client of a machine that can evaluate nothing")
    assert str(one.value) == str(many.value) == NO_LIBM
    assert no_libm.exists()


def test_nothing_to_compile_with(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler on the PATH, `harness check` prints the command that installs one.

    It prints nothing else.
    """
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(here))
    done = harness("check", "one.py", "two.py", "--reference", REFERENCE, folder=here)
    assert done.status == 2
    said = [line for line in done.err.splitlines() if "run: apt-get install g++" in line]
    assert [f"{line}\n" for line in said] == [done.err]


def test_cache_that_cannot_be_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the cache folder cannot be written, one line names the folder.

    The line also names the environment variable that selects another folder.
    """
    (here / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "file"))
    done = harness("check", "one.py", "--reference", REFERENCE, folder=here)
    cache = here / "file" / "cuda-submission-harness"
    said = f"harness: {cache}: Not a directory; run: export XDG_CACHE_HOME=FOLDER\n"
    assert (done.status, done.err) == (2, said)


@pytest.fixture
def disk(here: Path) -> Iterator[Path]:
    """Yield the folder of a mounted disk of 4 MiB."""
    folder = here / "disk"
    with small_disk(folder, "4m"):
        yield folder


@pytest.mark.thorough
@pytest.mark.parametrize("door", ["harness", "pytest"])
def test_disk_that_fills_up_meanwhile_ends_the_run(here: Path, disk: Path, door: str) -> None:
    """A run ends if the disk of its temporary folder fills up.

    Finished verdicts are shown, and no further evaluation begins.
    """
    gate = Gate(here / "gate")
    (here / "one.py").write_text(WAITS.format(gate=str(gate.path)))
    asked = ("one.py", "two.py", "--reference", REFERENCE, "--readable", "gate")
    own = ("--grid", "own", "--device", "simulator")
    command: list[str | Path]
    if door == "harness":
        command = ["check", *asked, *own, "--jobs", "1"]
    else:
        engine = ("--harness-engine", "in_process", f"--rootdir={here}", "-k", "not speed")
        command = [*pytest_arguments(*asked, *own, *engine)]
    running = start(*command, folder=here, module=door, TMPDIR=str(disk))
    gate.wait_for(running)
    with (disk / "filler").open("wb", buffering=0) as filler:
        left = 4 << 20
        while left > 0:
            try:
                left -= filler.write(bytes(4096))
            except OSError:
                break
    gate.open()
    done = running.outcome()
    assert done.status == {"harness": 2, "pytest": pytest.ExitCode.USAGE_ERROR}[door], done
    said = f": {disk}: No space left on device; run: export TMPDIR=FOLDER\n"
    assert f"{done.err.strip()}\n".endswith(said), done
    assert "one on double: failed" in done.out
    assert "two on double" not in done.out
