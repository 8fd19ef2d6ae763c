"""Test machines, on which benchmarks/machines.py runs the README's commands.

A test machine is a view: a root file system that a program sees but cannot change. What the program
writes goes to another folder. These tests check what a program can do in a view, and how the runs
are recorded in docs/machines.md.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from roots.table import BEGIN, END, Row, Run, counted, table, update
from roots.view import View, run

from tests.support import ROOT

ROW = Row("plain", "Debian 12", "ordinary", "3.11.2", "2.13.0", "bubblewrap", "abc", "2026-11-01")


@pytest.fixture
def view(tmp_path: Path) -> View:
    """Return a view of this machine's root file system."""
    makes_mounts = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "true"]
    if os.geteuid() or subprocess.run(makes_mounts, check=False, capture_output=True).returncode:
        pytest.skip("only root can make root file systems")
    (tmp_path / "written").mkdir()
    home = "/home/nobody-at-all"
    return View((Path("/"),), tmp_path / "written", ("true",), home=home, user_id=1234)


def said(view: View, command: str, tmp_path: Path) -> list[str]:
    """Run a shell command in a view, and return the lines that it prints."""
    log = tmp_path / "log"
    ended = run(replace(view, command=("/bin/sh", "-c", command)), log, limit_s=60)
    assert ended.status == 0, log.read_text()
    return log.read_text().splitlines()


def test_program_has_a_root_of_its_own(view: View, tmp_path: Path) -> None:
    """A program in a view has its own clone of the repository, and its writes stay within the view.

    The host's environment variables are hidden from it.
    """
    place = f"{view.home}/my project"
    view = replace(view, clone=(ROOT, place), folder=place, environment={"GIVEN": "1"})
    command = "echo new > README.md && id -u && git status --short && env && ls /dev/pts"
    lines = said(view, command, tmp_path)
    assert lines[:2] == ["1234", " M README.md"]
    assert "GIVEN=1" in lines
    assert not any(line.startswith("PYTEST_") for line in lines)
    assert not Path(view.home).exists()
    assert (ROOT / "README.md").read_text() != "new\n"
    # A second program finds what the first one wrote.
    assert said(view, "cat README.md", tmp_path) == ["new"]


def test_home_folder_that_cannot_be_written(view: View, tmp_path: Path) -> None:
    """No user can write to a folder that the view makes read-only."""
    (view.written / "srv" / "home").mkdir(parents=True)
    (view.written / "srv" / "home").chmod(0o777)
    command = "touch /srv/home/x 2>/dev/null || echo no"
    assert said(view, command, tmp_path) == []
    assert said(replace(view, read_only=("/srv/home",)), command, tmp_path) == ["no"]


@pytest.mark.parametrize("user_id", [0, 1234])
def test_rights_are_those_of_a_container(view: View, tmp_path: Path, user_id: int) -> None:
    """A program in a view cannot mount a file system, but it can make namespaces.

    If the view's `may_make_namespaces` is False, the program cannot make namespaces either.
    """
    view = replace(view, user_id=user_id, home="/")
    command = "mount -t tmpfs x /mnt 2>/dev/null && echo mounts; unshare -U true && echo namespaces"
    quiet = f"({command}) 2>/dev/null; true"
    assert said(view, quiet, tmp_path) == ["namespaces"]
    assert said(replace(view, may_make_namespaces=False), quiet, tmp_path) == []


def test_program_that_takes_too_long_is_killed(view: View, tmp_path: Path) -> None:
    """A program in a view that exceeds its time limit is killed, with all processes it started."""
    (tmp_path / "written" / "tmp").mkdir()
    os.mkfifo(tmp_path / "written" / "tmp" / "never")
    command = ("/bin/sh", "-c", "cat /tmp/never & cat /tmp/never")
    assert run(replace(view, command=command), tmp_path / "log", limit_s=0.5).status is None


def test_tests_are_counted_as_pytest_does() -> None:
    """`counted` takes the counts of tests from pytest's last line; errors count as failures."""
    last = "== 2 failed, 31 passed, 4 skipped, 1 error in 5.02s =="
    text = f"== 1 passed in 0.1s ==\nx\n{last}\nmake: ***"
    assert counted(text) == {"passed": 31, "skipped": 4, "failed": 3}
    assert counted("nothing ran") == {"passed": 0, "skipped": 0, "failed": 0}


def test_table_has_the_last_of_each_machine(tmp_path: Path) -> None:
    """The table has each machine's latest run; failed commands are in bold.

    For a machine that did not run, the table gives the reason. `update` writes the table between
    two marks of a page.
    """
    bad = replace(
        ROW, runs=(Run("make test", 2, 61.2, 5, 1, 2), Run("make leaderboard", None, 9.0))
    )
    good = replace(ROW, runs=(Run("make test", 0, 60.4, 7, 1, 0),))
    other = replace(ROW, machine="other", why_not="no such archive")
    text = table([bad])
    assert "`make test`: **status 2**, 61 s, 5 passed, 1 skipped, 2 failed" in text
    assert "`make leaderboard`: **took too long**, 9 s" in text
    text = table([bad, good, other])
    assert "`make test`: green, 60 s, 7 passed, 1 skipped, 0 failed" in text
    assert "**" not in text
    assert "not run: no such archive" in text
    page = tmp_path / "machines.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    update(page, text)
    assert page.read_text() == f"before\n{BEGIN}\n{text}\n{END}\nafter\n"
