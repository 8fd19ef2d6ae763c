"""A submission sees and can write the same files, wherever the harness is installed.

The tests vary the places of repository, cache, virtual environment and temporary folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ninja
import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import build_libraries
from tests.support import ROOT

pytestmark = pytest.mark.usefixtures("sandbox")

ATTACKS = ("looks_around", "includes_a_secret")


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    """Yield a folder directly in /tmp, a path that also exists and is writable in the sandbox."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def environment_in(folder: Path) -> Path:
    """Create a virtual environment with the current one's packages, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / Path(sysconfig.get_path("purelib")).parents[0].name
    (packages / "site-packages" / "these.pth").write_text(sysconfig.get_path("purelib"))
    # Ninja's package looks for its program beside Python.
    (folder / "bin" / "ninja").symlink_to(Path(ninja.BIN_DIR) / "ninja")
    return folder / "bin" / "python"


def check_in(repository: Path, temporary: Path) -> str:
    """Copy the harness to `repository`, check two attacks with the copy, and return the output.

    The temporary folder also holds the cache.
    """
    for part in ("harness", "reference", "tests/sandbox/attacks"):
        shutil.copytree(
            ROOT / part, repository / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    python = environment_in(repository / ".venv")
    cache = temporary / "cache" / "cuda-submission-harness"
    libraries = build_libraries(Cache(default_root()), find_toolchain())
    for library in (libraries.runtime, libraries.device, libraries.bindings):
        shutil.copytree(library.parent, cache / library.parent.name)
    files = [f"tests/sandbox/attacks/{name}.py" for name in ATTACKS]
    done = subprocess.run(
        [python, "-m", "harness", "check", *files, "--untrusted", "--problem", "conv_transpose1d"],
        cwd=repository,
        env={
            **os.environ,
            "PYTHONPATH": str(repository),
            "XDG_CACHE_HOME": str(temporary / "cache"),
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["below /tmp", "with spaces, behind a link"])
def test_view_is_the_same(below_tmp: Path, where: str) -> None:
    """A submission can write to /tmp, but not to a repository or virtual environment below /tmp.

    The result is the same if their paths have spaces or pass through a symbolic link.
    """
    repository, temporary = below_tmp / "repository", below_tmp
    if where != "below /tmp":
        (below_tmp / "a b" / "c d").mkdir(parents=True)
        repository.symlink_to(below_tmp / "a b" / "c d")
        temporary = below_tmp / "e f"
    said = check_in(repository, temporary)
    assert "looks_around on conv_transpose1d: error: raises at import: holes: []" in said, said
    assert "includes_a_secret on conv_transpose1d: error: does not compile: " in said, said
    assert "root:" not in said
