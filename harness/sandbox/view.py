"""Selection of the files that a sandbox shows: system, Python, torch, compilers, submission."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from harness.system.interpreter import PACKAGE

SUBMISSIONS = Path("/srv/submissions")
"""The folder in which a sandbox shows a submission and the sources beside it."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
# The files of /etc that the loader, compilers and name look-ups need; none is secret.
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/nvcc.profile",  # for Debian's own nvcc
    "/etc/nsswitch.conf",
    "/etc/localtime",
)
_PROCESSORS = "/sys/devices/system"

_SOURCE_SUFFIXES = (
    ".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".ipp",
)  # fmt: skip
"""Suffixes of the files beside a submission that `load()` and `#include` may read."""
_MOST_CHARACTERS = 4 << 20


def system() -> list[Path]:
    """Return the existing system folders and files with programs, libraries and settings."""
    return [Path(path) for path in (*_SYSTEM, *_SETTINGS, _PROCESSORS) if os.path.lexists(path)]


@functools.cache
def python() -> tuple[Path, ...]:
    """Return the folders of the Python interpreter, its installed packages, and the harness."""
    found = [Path(sys.prefix), Path(sys.base_prefix), PACKAGE]
    found += [folder for folder in _python_path() if folder != PACKAGE.parent]
    # Packages may lie outside the environment: those of the user, and those in .pth files.
    packages = (Path(entry) for entry in sys.path)
    found += [path for path in packages if path.name in ("site-packages", "dist-packages")]
    # An editable install of torch lies in the folder in which it was built.
    spec = find_spec("torch")
    found += [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    return tuple(path for path in found if path.exists())


def python_path() -> str:
    """Return the value of `PYTHONPATH` for a process of the harness in a sandbox."""
    return os.pathsep.join(map(str, (PACKAGE.parent, *_python_path())))


def _python_path() -> list[Path]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [Path(entry).absolute() for entry in given if entry]


def of_program(program: Path) -> Path:
    """Return the folder that a sandbox has to show so that a compiler works.

    This is the prefix into which the compiler is installed, the parent of `bin`. If the prefix
    contains the user's home folder, only the folder of the program itself is returned.
    """
    folder = program.resolve().parent
    above = folder.parent
    is_prefix = folder.name == "bin" and not Path.home().is_relative_to(above)
    return above if is_prefix else folder


def of_submission(submission: Path) -> list[Path]:
    """Return a submission's file, and the C++ and CUDA sources beside it that its text names.

    A source is named if its file name occurs in the text of the submission or of another named
    source. If the source lies in a sub-folder, the folder's name must occur too. Other files in the
    folder may belong to other people, so they are not returned.
    """
    # A fixed point: a source that is found may name further sources.
    seen = [submission]
    candidates = {path for folder in _folders(submission.parent) for path in _sources(folder)}
    texts = _text(submission)
    while named := {path for path in candidates if _is_named(path, submission.parent, texts)}:
        candidates -= named
        seen += sorted(named)
        texts += "".join(map(_text, sorted(named)))
    return seen


def _is_named(path: Path, folder: Path, text: str) -> bool:
    return all(part in text for part in path.relative_to(folder).parts)


def _text(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    except OSError:
        return ""


def _folders(folder: Path) -> Iterator[Path]:
    yield folder
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield Path(entry.path)


def _sources(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # A link could point to any file, which would be read with this process's rights.
                is_file = entry.is_file(follow_symlinks=False)
                if is_file and entry.name.endswith(_SOURCE_SUFFIXES):
                    yield Path(entry.path)
    except OSError:
        return


def gpu_devices() -> list[Path]:
    """Return the device files in /dev that a process opens to use an NVIDIA GPU."""
    names = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-caps|-modeset)|dxg")
    return sorted(path for path in Path("/dev").iterdir() if names.fullmatch(path.name))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths without duplicates, and without any path that lies below another one."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
