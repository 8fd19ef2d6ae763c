"""harness/preinstall.py, which prints what a machine lacks before make installs anything.

Each line has the command that mends a lack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT, Outcome, run, small_disk

# The Python that make would use: the one from which the tests' virtual environment was made.
PYTHON = Path(sys._base_executable)  # type: ignore[attr-defined]
NO_INDEX = ("--index-url", "http://127.0.0.1:9/simple")


@pytest.fixture(autouse=True)
def _pip_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the user's pip settings and compiler variables, so that a test sets all of them."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)


def preinstall(*pip_options: str, folder: Path, **variables: str) -> Outcome:
    """Run harness/preinstall.py as make runs it."""
    command = [str(PYTHON), "-I", str(ROOT / "harness" / "preinstall.py"), "venv", *pip_options]
    return run(command, folder, **variables)


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[str, ...]:
    """Return pip options that disable the package index and offer one package from a folder."""
    wheel = tmp_path / "wheels" / "tabulate-0.9.0-py3-none-any.whl"
    wheel.parent.mkdir()
    name = "tabulate-0.9.0.dist-info"
    (tmp_path / name).mkdir()
    (tmp_path / name / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tabulate\nVersion: 0.9.0\n"
    )
    (tmp_path / name / "WHEEL").write_text(
        "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (tmp_path / name / "RECORD").write_text("")
    made = shutil.make_archive(str(wheel), "zip", tmp_path, name)
    Path(made).rename(wheel)
    return ("--no-index", "--find-links", str(wheel.parent))


def test_nothing_is_missing(tmp_path: Path, wheels: tuple[str, ...]) -> None:
    """The check prints nothing and creates no file if nothing is missing.

    It passes the given options to pip.
    """
    before = sorted(tmp_path.iterdir())
    done = preinstall(*wheels, folder=tmp_path)
    assert done == Outcome(0, "", "")
    assert sorted(tmp_path.iterdir()) == before


def test_all_lacks_are_told_at_once(tmp_path: Path) -> None:
    """One run of the check prints a line for every lack.

    If pip's index cannot be reached, the line says why.
    """
    done = preinstall(*NO_INDEX, folder=tmp_path, PATH=str(tmp_path))
    assert (done.status, done.out) == (1, "")
    cxx, c, index = done.err.splitlines()
    assert cxx == "missing: no C++ compiler found; run: apt-get install g++"
    assert c == "missing: no C compiler found; run: apt-get install g++"
    assert index.startswith("missing: pip cannot download packages (")
    assert "Connection refused" in index
    assert index.endswith("; run: pip config set global.index-url URL, or export https_proxy=URL")


def test_compiler_that_cannot_link(tmp_path: Path, wheels: tuple[str, ...]) -> None:
    """A compiler that cannot link the C library's math functions is reported."""
    compiler = tmp_path / "broken-g++"
    compiler.write_text("#!/bin/sh\necho 'ld: cannot find -lm: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    done = preinstall(*wheels, folder=tmp_path, CXX=str(compiler))
    said = f"{compiler} cannot build a program (ld: cannot find -lm: No such file)"
    remedy = "apt-get install g++ libc6-dev"
    assert (done.status, done.err) == (1, f"missing: {said}; run: {remedy}\n")


def test_python_without_venv_and_headers(tmp_path: Path, wheels: tuple[str, ...]) -> None:
    """A Python without venv and headers is reported, with the Debian packages to install."""
    # A home for Python with the standard library but for ensurepip, and without headers.
    home = tmp_path / "python"
    libraries = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries.parent.mkdir(parents=True)
    own = Path(os.__file__).parent
    libraries.mkdir()
    for path in own.iterdir():
        if path.name not in ("ensurepip", "site-packages"):
            (libraries / path.name).symlink_to(path)
    command = [str(PYTHON), str(ROOT / "harness" / "preinstall.py"), "venv", *wheels]
    done = run(command, tmp_path, PYTHONHOME=str(home), PYTHONPATH="")
    version = libraries.name
    assert done.status == 1
    venv, headers = done.err.splitlines()
    assert venv == f"missing: Python's venv is missing; run: apt-get install {version}-venv"
    assert headers.startswith("missing: Python's headers are missing (no Python.h in ")
    assert headers.endswith(f"); run: apt-get install {version}-dev")


def test_folder_that_cannot_be_made(tmp_path: Path, wheels: tuple[str, ...]) -> None:
    """A folder that cannot be created is reported, with the make variable for another folder.

    Here it is the cache's folder, on a disk that is read-only.
    """
    if os.geteuid() == 0:
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        mount = ["/bin/mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(mounted)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("the machine allows no mounts")
    else:
        mounted = tmp_path / "mounted"
        mounted.mkdir(mode=0o500)
    try:
        done = preinstall(*wheels, folder=tmp_path, XDG_CACHE_HOME=str(mounted / "cache"))
    finally:
        if os.geteuid() == 0:
            subprocess.run(["/bin/umount", "--lazy", str(mounted)], check=True)
    said = f"missing: {mounted} is not writable; run: make XDG_CACHE_HOME=FOLDER\n"
    assert (done.status, done.err) == (1, said)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a mounted disk of 1 GiB, too small for the installation."""
    folder = tmp_path / "disk"
    with small_disk(folder, "1g"):
        yield folder


def test_disk_without_room(disk: Path, wheels: tuple[str, ...]) -> None:
    """A disk without room is reported with the free and the needed space in GB.

    The message has the make variables for other folders.
    """
    done = preinstall(*wheels, folder=disk, XDG_CACHE_HOME=str(disk / "cache"))
    places = f"2 GB in {disk}/venv, 2 GB in {disk}/cache"
    said = f"1.0 GB of disk space are free, 4 GB needed: {places}"
    remedy = "make VENV=FOLDER XDG_CACHE_HOME=FOLDER"
    assert (done.status, done.err) == (1, f"missing: {said}; run: {remedy}\n")


def test_make_stops_at_what_is_missing(tmp_path: Path) -> None:
    """`make leaderboard` stops at a failed check, and creates and installs nothing."""
    (tmp_path / "harness").mkdir()
    for name in ("Makefile", "pyproject.toml", "harness/preinstall.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    options = " ".join(NO_INDEX)
    done = run(["make", "leaderboard", f"PYTHON={PYTHON}", f"PIP_OPTIONS={options}"], tmp_path)
    assert done.status == 2
    assert done.err.startswith("missing: pip cannot download packages (")
    assert done.err.count("\n") == 2, done.err
    assert not (tmp_path / ".venv").exists()
