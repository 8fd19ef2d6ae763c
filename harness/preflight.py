"""What every evaluation needs of its machine: compilers, headers, room and our own libraries."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.compiler.cache import Cache
from harness.compiler.ninja import CompileError, linkers_words
from harness.compiler.toolchain import CudaOfGpu, Toolchain, ToolchainError, find_toolchain
from harness.compiler.tried import INSTALL_LAST_TRIED, LAST_TRIED
from harness.preinstall import INSTALL_COMPILER
from harness.simulator.native.library import Libraries, build_libraries
from harness.system.errors import MachineError

PROBE_BYTES = 1 << 20
"""Of the file that shows whether a folder has room: more than a library has, less than a build."""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))


@dataclass(frozen=True)
class Ready:
    """What was found and built."""

    toolchain: Toolchain
    libraries: Libraries


def prepare(cache: Cache, gpu: CudaOfGpu | None = None) -> Ready:
    """Find the compilers, see that there is room, and build and load the harness's own libraries.

    Where all is in the cache that takes a tenth of a second.

    Args:
        cache: Where the libraries are kept.
        gpu: What the GPU can run; None on the simulator.

    Raises:
        MachineError: This machine can evaluate nothing.
    """
    try:
        toolchain = find_toolchain(gpu)
        try_folder(cache.root, "XDG_CACHE_HOME")
        try_folder(temporary_folder(), "TMPDIR")
        libraries = build_libraries(cache, toolchain)
    except ToolchainError as error:
        raise MachineError(str(error)) from None
    except CompileError as error:
        raise MachineError(
            f"the harness's own libraries do not compile: {_why(error, cache.root)}"
        ) from None
    except OSError as error:
        raise MachineError(_line(error)) from None
    _load(libraries.machine)
    return Ready(toolchain, libraries)


def try_folder(folder: Path, variable: str) -> None:
    """See that a folder can be made, and takes a file.

    Args:
        folder: Which.
        variable: Of the environment, that names another one.

    Raises:
        MachineError: It does not.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A full disk takes a file, but nothing into it.
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            left = PROBE_BYTES
            while left:
                left -= file.write(bytes(left)) or 0
    except OSError as error:
        said = error.strerror or str(error)
        raise MachineError(f"{folder}: {said}; run: export {variable}=FOLDER") from None


def temporary_folder() -> Path:
    """Where compilers write: unlike Python they go nowhere else where it is full."""
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir())


@contextmanager
def faults_of_machine() -> Iterator[None]:
    """Raise MachineError where a disk takes nothing: it will take nothing of others either."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise MachineError(_line(error)) from None
        raise


def _line(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _why(error: CompileError, root: Path) -> str:
    """What the compiler or linker said first, and what to do where that is known."""
    full = os.strerror(errno.ENOSPC)
    if full in error.output:
        # A full disk is told in one line, not one for each source.
        folders = "XDG_CACHE_HOME=FOLDER TMPDIR=FOLDER"
        return f"{root} or {temporary_folder()}: {full}; run: export {folders}"
    said = linkers_words(error.output)
    # What every program is linked with comes with the compiler, or with the C library's headers.
    if said:
        return f"{said}; run: {INSTALL_COMPILER} libc6-dev"
    return f"{error}; {LAST_TRIED}; run: {INSTALL_LAST_TRIED}"


def _load(library: Path) -> None:
    """See that a library can be loaded: a disk may be one from which nothing may be executed.

    Raises:
        MachineError: It cannot.
    """
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise MachineError(
            f"the harness's own library does not load: {error}; run: export XDG_CACHE_HOME=FOLDER"
        ) from None
