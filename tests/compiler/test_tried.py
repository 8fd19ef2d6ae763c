"""Notes about a release of torch that this version of the harness was not tested with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.compiler.tried import NEWEST_TORCH, OLDEST_TORCH
from harness.system.interpreter import command
from tests.support import REFERENCE, ROOT, run

# A release that does not exist yet: the installed one with another version number.
START = """
import sys, torch
torch.__version__ = "2.99.0"
{}
"""
LINE = "torch 2.99 was not tested with this version of the harness"


def in_a_newer_torch(folder: Path, program: str, *arguments: str | Path) -> tuple[str, str]:
    """Return stdout and stderr of a Python program under a torch that calls itself 2.99."""
    python = command("harness")[0]
    done = run([python, "-c", START.format(program), *map(str, arguments)], folder)
    return done.out, done.err


def test_check_says_so_once_and_goes_on(tmp_path: Path) -> None:
    """`harness check` prints one note about an untested torch on stderr, and continues."""
    (tmp_path / "empty.py").touch()
    program = "from harness.__main__ import main; sys.exit(main())"
    problem = REFERENCE / "conv_transpose1d.py"
    out, err = in_a_newer_torch(tmp_path, program, "check", "empty.py", "--reference", problem)
    assert err == f"note: {LINE}\n"
    assert "empty.py" in out


def test_doctor_says_so(tmp_path: Path) -> None:
    """`harness doctor` adds a note about an untested torch to torch's line, which stays "ok"."""
    program = "from harness.cli.requirements import _requirements; print(next(r.line for r in "
    program += "_requirements() if r.name == 'torch'))"
    out, _ = in_a_newer_torch(tmp_path, program)
    assert out == f"ok    torch: 2.99.0; {LINE}\n"


@pytest.mark.thorough
def test_pytest_says_so_in_its_header(tmp_path: Path) -> None:
    """The header of pytest has one note about an untested torch."""
    program = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    problem = REFERENCE / "conv_transpose1d.py"
    out, _ = in_a_newer_torch(tmp_path, program, "--collect-only", "--reference", problem)
    assert out.count(LINE) == 1


def test_newest_that_was_tried_is_in_the_table() -> None:
    """docs/machines.md lists the oldest and the newest torch that the harness was tested with."""
    table = (ROOT / "docs" / "machines.md").read_text()
    for major, minor in (OLDEST_TORCH, NEWEST_TORCH):
        assert f"| {major}.{minor}." in table


def test_packages_bounds_are_below_alone() -> None:
    """The package's requirements on Python and torch have lower bounds only.

    An upper bound would replace a newer torch, or refuse a newer Python.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = f"torch>={OLDEST_TORCH[0]}.{OLDEST_TORCH[1]}"
    assert [each for each in project["dependencies"] if each.startswith("torch")] == [oldest]
    assert project["requires-python"] == ">=3.11"
