"""The small map of a failing case's output, which is printed only on a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.records.report import Report
from harness.records.sketch import sketch
from tests.report_page import samples
from tests.support import harness


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with the report of a wrong submission."""
    for name in ("NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "reports.jsonl"
    path.write_text(samples.wrong().to_json() + "\n")
    return path


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str, encoding: str = "utf-8") -> str:
    """Run a harness command on a pseudo-terminal, and return what it prints."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding=encoding, errors="replace") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        main(arguments)
        monkeypatch.undo()
    found = b""
    # Linux raises EIO when all is read and no process can write any more.
    with contextlib.suppress(OSError):
        while True:
            found += os.read(master, 1 << 16)
    os.close(master)
    return found.decode(encoding)


def test_map_shows_where_it_is_wrong() -> None:
    """The map marks right, wrong and never written elements of an output with different signs."""
    lines = list(sketch(samples.wrong(), 200, colour=False))
    assert lines[0] == "  where k3-s2-1 is wrong, from [0, 0, 0] on:"
    assert len(lines) == 1 + 3 + 1
    row = lines[1].strip()
    assert len(row) == 81
    assert set(row[0:77:2]) == {"·"}
    assert "·" not in row[1:77:2]
    assert row.endswith("□□□□")
    assert "░▒▓█ wrong, from small to large errors" in lines[-1]
    assert lines[-1].endswith("□ never written")
    assert all(len(line) <= 40 for line in list(sketch(samples.wrong(), 40, colour=False))[1:4])
    assert list(sketch(samples.right(), 80, colour=True)) == []


def test_map_has_what_is_written_beside_the_output() -> None:
    """The map marks writes past the output's end with a sign for writes out of bounds."""
    wrong = samples.wrong()
    only = replace(wrong, cases=wrong.cases[4:5], smallest_failure="k3-s2-4")
    lines = list(sketch(only, 200, colour=False))
    assert lines[4].strip() == "◇◇"
    assert "◇ out of bounds" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "variable", "is_coloured"),
    [((), "", True), (("--no-color",), "", False), ((), "1", False)],
)
def test_terminal_gets_the_map(
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    variable: str,
    is_coloured: bool,
) -> None:
    """A terminal gets a failing case's map in colours, unless `--no-color` or NO_COLOR is set."""
    if variable:
        monkeypatch.setenv("NO_COLOR", variable)
    shown = on_terminal(monkeypatch, "report", str(recorded), *arguments)
    assert "where k3-s2-1 is wrong" in shown
    assert "·▓" in shown if not is_coloured else "▓" in shown
    assert ("\x1b[" in shown) is is_coloured


def test_terminal_that_cannot_gets_text_alone(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that is not UTF-8, or has `TERM=dumb`, gets the report's text without the map."""
    assert "where k3" not in on_terminal(monkeypatch, "report", str(recorded), encoding="latin-1")
    monkeypatch.setenv("TERM", "dumb")
    assert "where k3" not in on_terminal(monkeypatch, "report", str(recorded))


def test_pipe_gets_plain_text(recorded: Path) -> None:
    """A pipe gets the report's text without map and colours."""
    done = harness("report", recorded, folder=recorded.parent)
    assert done.status == 1
    assert "where k3" not in done.out
    assert "\x1b" not in done.out
    assert done.out.startswith("mine on conv: failed: ")
    assert Report.from_json(recorded.read_text()) == samples.wrong()
