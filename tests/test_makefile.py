"""The target `make leaderboard`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.system.interpreter import command
from tests.support import REFERENCE, ROOT, page_data, run


@pytest.mark.thorough
def test_leaderboard_is_printed_where_a_submission_fails(tmp_path: Path) -> None:
    """`make leaderboard` prints and writes the table even if a submission fails.

    The table says which submission failed, and make exits with an error.
    """
    for name in ("Makefile", "pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("reference", "submissions"):
        (tmp_path / name).mkdir()
    shutil.copy(REFERENCE / "conv_transpose1d.py", tmp_path / "reference")
    takes = "in_channels, out_channels, kernel_size"
    text = f"import nothing_such\nclass ModelNew:\n    def __init__(self, {takes}): pass\n"
    (tmp_path / "submissions" / "mine.py").write_text(text)
    bin_folder = tmp_path / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("pytest", "harness"):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec {" ".join(command(name))} "$@"\n')
        script.chmod(0o755)
    (tmp_path / "venv" / "ready").touch()
    done = run(["make", "leaderboard", f"VENV={tmp_path / 'venv'}"], tmp_path)
    assert done.status == 2
    assert "Error 1" in done.err
    assert "LEADERBOARD.md: changed" in done.out
    (entry,) = page_data(tmp_path / ".harness" / "report.html")["entries"]
    assert entry["verdict"] == "error"
    assert "| mine         | error " in (tmp_path / "LEADERBOARD.md").read_text()
