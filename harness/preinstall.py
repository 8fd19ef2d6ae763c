"""A program that prints, one a line, all that a machine lacks for the installation of the harness.

make runs `python3 -I harness/preinstall.py VENV [OPTION OF PIP ...]` first. This module needs only
the system's Python and the standard library. `harness doctor` reports the same lacks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs in which the tests show a page."""

INSTALL_COMPILER = "apt-get install g++"

GIB = 1 << 30
# Measured in GiB, and rounded up. The virtual environment: 1.7 with a torch for CPUs; with CUDA,
# 4.7 for torch and 1 for the rest. Then the files that pip keeps during the installation. The
# cache: 0.25 of builds after `make leaderboard`, 0.7 after all kinds of tests, and pip's cache.
_VENV_BYTES, _VENV_BYTES_WITH_CUDA = 2 * GIB, 6 * GIB
_PIP_BYTES, _PIP_BYTES_WITH_CUDA = GIB // 2, 3 * GIB
_CACHE_BYTES, _CACHE_BYTES_WITH_CUDA = 2 * GIB, 5 * GIB

# A small package of the harness's requirements, for a trial download.
_PACKAGE = "tabulate"
_INDEX_SECONDS = 15
_PIP_SECONDS = 120
# Debian's folder for the wheels that ensurepip installs.
_DEBIAN_WHEELS = "/usr/share/python-wheels"


@dataclass(frozen=True)
class Lack:
    """Something that the machine lacks for an installation of the harness.

    Attributes:
        what: Description of what is missing.
        remedy: The command that provides what is missing.
    """

    what: str
    remedy: str

    @property
    def line(self) -> str:
        """Description and remedy in one line, for users."""
        return f"{self.what}; run: {self.remedy}"


def lacks(venv: Path, pip_options: Sequence[str]) -> Iterator[Lack]:
    """Yield everything that this machine lacks for installing the harness in a virtual environment.

    Args:
        venv: Folder of the virtual environment.
        pip_options: Options of `pip install` that the installation uses, such as an index.
    """
    found = [missing_venv(), missing_headers(), missing_compiler("C++"), missing_compiler("C")]
    if found[-2] is None:
        found.append(missing_linking())
    found.append(missing_index(pip_options))
    yield from filter(None, found)
    yield from missing_space(venv)


def missing_venv() -> Lack | None:
    """Return a lack if Python cannot make virtual environments, as on Debian by default."""
    if find_spec("venv") and find_spec("ensurepip"):
        return None
    return Lack("Python's venv is missing", f"apt-get install {_python()}-venv")


def headers() -> Path:
    """Return the folder that must have Python.h, which every compiled extension includes."""
    return Path(sysconfig.get_path("include", scheme="posix_prefix"))


def missing_headers() -> Lack | None:
    """Return a lack if Python.h is missing, else None."""
    if (headers() / "Python.h").is_file():
        return None
    return Lack(
        f"Python's headers are missing (no Python.h in {headers()})",
        f"apt-get install {_python()}-dev",
    )


def compiler(language: str) -> str | None:
    """Return the path of the compiler for `C` or `C++`, or None.

    The variable CC or CXX comes first, then the usual names.
    """
    variable, *usual = {"C": ("CC", "cc", "gcc"), "C++": ("CXX", "g++", "c++")}[language]
    names = filter(None, (os.environ.get(variable), *usual))
    return next(filter(None, map(shutil.which, names)), None)


def missing_compiler(language: str) -> Lack | None:
    """Return a lack if no compiler for the language, `C` or `C++`, is found, else None."""
    if compiler(language):
        return None
    return Lack(f"no {language} compiler found", INSTALL_COMPILER)


def missing_linking() -> Lack | None:
    """Return a lack if the C++ compiler cannot link a small program with libm and libpthread."""
    program = compiler("C++") or ""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "-x", "c++", "-", "-o", f"{folder}/a", "-lm", "-lpthread"]
        done = _run(command, "int main() {}\n")
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "warning" not in line] or ["no message"]
    return Lack(f"{program} cannot build a program ({lines[0]})", f"{INSTALL_COMPILER} libc6-dev")


def missing_space(venv: Path) -> Iterator[Lack]:
    """Yield a lack for each disk without enough free space for the installation and the cache."""
    by_disk: dict[int, list[_Need]] = {}
    for need in _needs(venv.absolute()):
        there = _existing(need.folder)
        if os.access(there, os.W_OK):
            by_disk.setdefault(there.stat().st_dev, []).append(need)
        else:
            yield Lack(f"{there} is not writable", f"make {need.variable}=FOLDER")
    # Needs are added by disk, because several folders may share one.
    for group in by_disk.values():
        needed = sum(need.size for need in group)
        free = shutil.disk_usage(_existing(group[0].folder)).free
        if free < needed:
            places = ", ".join(f"{need.size / GIB:g} GB in {need.folder}" for need in group)
            moved = " ".join(f"{need.variable}=FOLDER" for need in group)
            yield Lack(
                f"{free / GIB:.1f} GB of disk space are free, {needed / GIB:g} GB needed: {places}",
                f"make {moved}",
            )


@dataclass(frozen=True)
class _Need:
    """Bytes of disk space needed in a folder, and the make variable that selects another folder."""

    size: int
    folder: Path
    variable: str


def _needs(venv: Path) -> Iterator[_Need]:
    # On a machine with a GPU, make installs a torch for CUDA.
    has_gpu = shutil.which("nvidia-smi") is not None
    # A finished installation needs no more space.
    if not (venv / "ready").exists():
        yield _Need(_VENV_BYTES_WITH_CUDA if has_gpu else _VENV_BYTES, venv, "VENV")
        temporary = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
        yield _Need(_PIP_BYTES_WITH_CUDA if has_gpu else _PIP_BYTES, temporary, "TMPDIR")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not (caches / "cuda-submission-harness").exists():
        yield _Need(_CACHE_BYTES_WITH_CUDA if has_gpu else _CACHE_BYTES, caches, "XDG_CACHE_HOME")


def missing_index(pip_options: Sequence[str]) -> Lack | None:
    """Return a lack if pip cannot download a package with its present configuration."""
    pip = _pip()
    if not pip:  # ensurepip is missing, which `missing_venv` reports
        return None
    # A dry run tests index, proxy and certificates exactly as pip will use them.
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-I", *pip, "install", *pip_options, "--dry-run", "--no-deps"),
            *("--ignore-installed", "--target", folder, "--disable-pip-version-check"),
            *("--retries", "3", "--timeout", str(_INDEX_SECONDS), _PACKAGE),
        ]
        try:
            done = _run(command, seconds=_PIP_SECONDS)
        except subprocess.TimeoutExpired:
            why = f"no answer within {_PIP_SECONDS} s"
        else:
            if done.returncode == 0:
                return None
            why = _words_of_pip(done.stderr)
    return Lack(
        f"pip cannot download packages ({why})",
        "pip config set global.index-url URL, or export https_proxy=URL",
    )


def _pip() -> list[str]:
    """Return the arguments for Python to run pip from a wheel, without a virtual environment."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), _DEBIAN_WHEELS]
    spec = find_spec("ensurepip")
    if spec is None:
        return []
    folders += [f"{place}/_bundled" for place in spec.submodule_search_locations or ()]
    wheels = (wheel for folder in filter(None, folders) for wheel in Path(folder).glob("pip-*.whl"))
    return [f"{wheel}/pip" for wheel in wheels][:1]


def _words_of_pip(output: str) -> str:
    r"""Return pip's reason for a failure: the connection error in a warning, or the first error.

    >>> _words_of_pip("WARNING: connection broken by 'X(<y>: No route)': /a\nERROR: not found")
    'No route'
    """
    broken = re.search(r"connection broken by '(?:\w+\(['\"]?<[^>]*>: )?(.*?)['\")]*': ", output)
    errors = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    return broken[1] if broken else errors[0][len("ERROR: ") :] if errors else "no message"


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _run(
    command: Sequence[str], text: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=seconds
    )


def main(arguments: Sequence[str], say: Callable[[str], None]) -> int:
    """Print everything that is missing; return exit status 1 if anything is missing, else 0."""
    venv, *pip_options = arguments
    found = list(lacks(Path(venv), pip_options))
    for lack in found:
        say(f"missing: {lack.line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], lambda line: print(line, file=sys.stderr)))
