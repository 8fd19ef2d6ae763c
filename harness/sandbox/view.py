"""Which files a sandbox sees: enough to run Python, torch and compilers, and what it is for."""

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
"""Where a sandbox shows a submission and what it may read beside it."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
# Of /etc what the loader, compilers and name look-ups need, and nothing that is secret.
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/nvcc.profile",  # of Debian's own nvcc
    "/etc/nsswitch.conf",
    "/etc/localtime",
)
_PROCESSORS = "/sys/devices/system"

_SOURCE_SUFFIXES = (
    ".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".ipp",
)  # fmt: skip
"""Of files beside a submission that `load()` and `#include` may read."""
_MOST_CHARACTERS = 4 << 20


def system() -> list[Path]:
    """Programs, libraries and settings of the machine."""
    return [Path(path) for path in (*_SYSTEM, *_SETTINGS, _PROCESSORS) if os.path.lexists(path)]


@functools.cache
def python() -> tuple[Path, ...]:
    """The interpreter, the packages that are installed for it, and the harness itself."""
    found = [Path(sys.prefix), Path(sys.base_prefix), PACKAGE]
    found += [folder for folder in _python_path() if folder != PACKAGE.parent]
    # Packages may lie outside of an environment: the user's own, and what its .pth files name.
    packages = (Path(entry) for entry in sys.path)
    found += [path for path in packages if path.name in ("site-packages", "dist-packages")]
    # torch may be used from the folder in which it was built (pip install --editable).
    spec = find_spec("torch")
    found += [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    return tuple(path for path in found if path.exists())


def python_path() -> str:
    """`PYTHONPATH` for a process of the harness in a sandbox."""
    return os.pathsep.join(map(str, (PACKAGE.parent, *_python_path())))


def _python_path() -> list[Path]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [Path(entry).absolute() for entry in given if entry]


def of_program(program: Path) -> Path:
    """The folder that a compiler needs: what it was installed into, but nobody's whole home."""
    folder = program.resolve().parent
    above = folder.parent
    is_prefix = folder.name == "bin" and not Path.home().is_relative_to(above)
    return above if is_prefix else folder


def of_submission(submission: Path) -> list[Path]:
    """Its file, and the C++ and CUDA sources beside it that it names.

    Named is what stands in its text, or in that of a source that is named: a file's own name, and
    its folder's where it lies one below. Whatever else lies there may be somebody else's.
    """
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
                # A link could lead to anything, and would be read with our rights.
                is_file = entry.is_file(follow_symlinks=False)
                if is_file and entry.name.endswith(_SOURCE_SUFFIXES):
                    yield Path(entry.path)
    except OSError:
        return


def gpu_devices() -> list[Path]:
    """What a process opens to use an NVIDIA GPU."""
    names = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-caps|-modeset)|dxg")
    return sorted(path for path in Path("/dev").iterdir() if names.fullmatch(path.name))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those paths that lie in none of the others, each once."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
