"""File names that are hard to print or store: each takes one line of output.

Such a file does not keep the other files from being checked.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import Outcome, harness, harness_process, pytest_
from tests.test_disturbed import PLAIN, REFERENCE

COMMAND = "::error file=x::boom"
LONG = "a" * 251


DECLINES = """
import harness.worker.inside.faults as faults
from torch import nn

faults._one_line = str

class ModelNew(nn.Module):
    def __init__(self):
        raise NotImplementedError("first\\n::error::second")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with submissions whose names are hard to print or store, and with zeta.py.

    The name zeta.py is harmless. All submissions are wrong.
    """
    submissions = tmp_path / "submissions"
    submissions.mkdir()
    for name in (COMMAND, LONG, "a\nb", "zeta"):
        (submissions / f"{name}.py").write_text(PLAIN.format(""))
    (submissions / "a\n::error::b").mkdir()
    (submissions / "a\n::error::b" / "beta.py").write_text(PLAIN.format(""))
    (submissions / "c\n::error::d.py").write_text("x = 1\n")
    (submissions / "away.py").symlink_to("/nowhere/::error::x.py")
    Path(os.fsdecode(bytes(submissions) + b"/n\xffme.py")).write_text(PLAIN.format(""))
    return tmp_path


def check_no_commands(done: Outcome) -> None:
    """Check that the output has no command to a GitHub runner, and no traceback."""
    lines = f"{done.out}\n{done.err}".splitlines()
    assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    assert "Traceback" not in done.err


@pytest.mark.thorough
def test_names_are_one_line_each_and_the_others_are_kept(folder: Path) -> None:
    """A file whose name is hard to print or store is refused with a message that says why.

    Examples are a name with a control character, and one of 251 bytes. The reports of other files
    are stored.
    """
    for name in ("submissions", f"submissions/{COMMAND}.py"):
        done = harness_process(
            "check", name, "--reference", REFERENCE, "--junitxml", "x.xml", folder=folder
        )
        assert done.status == 1, done.err
        check_no_commands(done)
        assert "has :: in its name; rename it" in done.out
    done = harness("check", "submissions", "--reference", REFERENCE, folder=folder)
    assert "has a name of 251 bytes; rename it, at most 200 are allowed" in done.out
    assert "has a name that is not UTF-8; rename it" in done.out
    assert "has a control character in its name; rename it" in done.out
    assert "is a link to /nowhere/::error::x.py, which does not exist" in done.out
    assert [path.name for path in (folder / ".harness" / "reports").rglob("*.json")] == [
        "zeta.json",
        "beta.json",
    ]


@pytest.mark.thorough
def test_pytest_prints_no_commands_either(folder: Path) -> None:
    """Pytest prints no line that begins with `::`, even if a file's name does."""
    done = pytest_(
        ".", "--reference", REFERENCE, "-v", "-k", "is_submission", folder=folder / "submissions"
    )
    assert done.status == 1, done.out + done.err
    check_no_commands(done)
    assert "has :: in its name; rename it" in done.out
    assert "a ::error::b: the folder has :: in its name; rename it" in done.out


@pytest.mark.thorough
def test_pytest_prints_no_commands_of_an_exception(tmp_path: Path) -> None:
    """Pytest prints a message of several lines, which a worker has sent, as one line."""
    (tmp_path / "mine.py").write_text(DECLINES)
    done = pytest_("mine.py", "--reference", REFERENCE, "-rsf", "-k", "[double", folder=tmp_path)
    check_no_commands(done)
    assert "declined: first ::error::second" in done.out


@pytest.mark.thorough
def test_report_that_cannot_be_stored_is_that_reports_matter(tmp_path: Path) -> None:
    """If a folder stands at a report's path, one line says so, and the next report is stored."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(PLAIN.format(""))
    (tmp_path / ".harness" / "reports" / "double" / "one.json").mkdir(parents=True)
    done = harness("check", "one.py", "two.py", "--reference", REFERENCE, folder=tmp_path)
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert "one.json: Is a directory; this one is not written there" in line
    assert (tmp_path / ".harness" / "reports" / "double" / "two.json").is_file()
