"""`write_whole` and `append_line`, which write a text completely or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.system.files import append_line, write_whole

WRITERS = {
    "write_whole": "write_whole(Path('kept'), 'x' * 100_000)",
    "append_line": "append_line(Path('kept'), 'x' * 100_000)",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_full_disk_leaves_what_was_there(tmp_path: Path, writer: str) -> None:
    """A failed write, as on a full disk, leaves the old file and no other file beside it."""
    (tmp_path / "kept").write_text("old\n")
    script = (
        "import resource; from pathlib import Path\n"
        "from harness.system.files import append_line, write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"try: {WRITERS[writer]}\n"
        "except OSError: print('refused')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert done.stdout == b"refused\n"
    assert (tmp_path / "kept").read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_line_after_a_broken_one_stands_alone(tmp_path: Path) -> None:
    """`append_line` begins a new line even if the file's last line is unfinished."""
    path = tmp_path / "folder" / "lines"
    append_line(path, "first")
    with path.open("a") as file:
        file.write("half a li")
    append_line(path, "second")
    assert path.read_text() == "first\nhalf a li\nsecond\n"


def test_link_is_kept(tmp_path: Path) -> None:
    """`write_whole` on a symbolic link replaces the link's target, and keeps the link."""
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_permissions_are_the_usual_ones(tmp_path: Path) -> None:
    """`write_whole` gives a file the permissions that a plain write would give it."""
    write_whole(tmp_path / "whole", "text")
    (tmp_path / "plain").write_text("text")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode
