"""The package as pip installs it."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support import REFERENCE, ROOT, SUBMISSIONS, page_data, run


@pytest.mark.thorough
def test_wheel_has_everything_that_a_check_needs(tmp_path: Path) -> None:
    """An installed wheel can run `harness check --html`, without the source tree.

    The wheel contains py.typed, too.
    """
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "harness", source / "harness", ignore=shutil.ignore_patterns("__pycache__")
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-build-isolation"]
    # PYTHONPATH is empty, so pip cannot find metadata that an editable install left in the tree.
    alone = {"PYTHONPATH": ""}
    wheel = run([*pip, "wheel", *local, "--wheel-dir", "wheels", str(source)], tmp_path, **alone)
    assert wheel.status == 0, wheel.err
    (built,) = (tmp_path / "wheels").glob("*.whl")
    shutil.rmtree(source)

    home = tmp_path / "home"
    run([sys.executable, "-m", "venv", "--without-pip", str(home)], tmp_path)
    python = home / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", str(built)]
    installed = run(install, tmp_path, **alone)
    assert installed.status == 0, installed.err
    # The dependencies are this environment's, since a new download would be gigabytes.
    site = next(home.glob("lib/python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    checked = run(
        [
            str(home / "bin" / "harness"), "check", str(SUBMISSIONS / "flat_index.py"),
            "--reference", str(REFERENCE / "conv_transpose1d.py"), "--seed", "1",
            "--case", "k2-s3-b1x3x17-to8", "--html", "page.html",
        ],
        tmp_path,
        **alone,
    )  # fmt: skip
    assert checked.status == 0, checked.out + checked.err
    assert "flat_index on conv_transpose1d: passed" in checked.out
    assert len(page_data(tmp_path / "page.html")["entries"]) == 1
    # A program that uses the Python interface gets its types.
    assert (site / "harness" / "py.typed").is_file()
    where = "import harness; print(harness.__file__)"
    assert str(home) in run([str(python), "-c", where], tmp_path, **alone).out
