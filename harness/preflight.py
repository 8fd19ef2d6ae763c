"""Tests, before any evaluation, of compilers, headers, disk space and the harness's libraries."""

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
"""Size of the file that tests whether a folder has space.

A library is smaller, and a build is larger.
"""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))


@dataclass(frozen=True)
class BuildTools:
    """The compilers that were found, and the harness's native libraries that were built."""

    toolchain: Toolchain
    libraries: Libraries


def prepare(cache: Cache, gpu: CudaOfGpu | None = None) -> BuildTools:
    """Find the compilers, test for disk space, and build and load the harness's native libraries.

    This takes a tenth of a second if all libraries are in the cache.

    Args:
        cache: Build cache that holds the libraries.
        gpu: The CUDA releases that the GPU can run; None on the simulator.

    Raises:
        MachineError: This machine cannot evaluate anything.
    """
    try:
        toolchain = find_toolchain(gpu)
        require_writable(cache.root, "XDG_CACHE_HOME")
        require_writable(temporary_folder(), "TMPDIR")
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
    return BuildTools(toolchain, libraries)


def require_writable(folder: Path, variable: str) -> None:
    """Check that a folder exists or can be created, and that a file can be written to it.

    Args:
        folder: The folder to check.
        variable: Name of the environment variable that selects another folder, for the message.

    Raises:
        MachineError: The folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A full disk lets a file be created, but not written.
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            left = PROBE_BYTES
            while left:
                left -= file.write(bytes(left)) or 0
    except OSError as error:
        said = error.strerror or str(error)
        raise MachineError(f"{folder}: {said}; run: export {variable}=FOLDER") from None


def temporary_folder() -> Path:
    """Return the folder for temporary files of the compilers.

    Unlike Python's `tempfile`, compilers do not choose another folder if this one is full.
    """
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir())


@contextmanager
def raising_machine_errors() -> Iterator[None]:
    """Convert the OSError of a full or read-only disk to MachineError within the context."""
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
    """Return the first error message of the compiler or linker, and a remedy if one is known."""
    full = os.strerror(errno.ENOSPC)
    if full in error.output:
        # A full disk is reported in one line, not one for each source.
        folders = "XDG_CACHE_HOME=FOLDER TMPDIR=FOLDER"
        return f"{root} or {temporary_folder()}: {full}; run: export {folders}"
    said = linkers_words(error.output)
    # The libraries that every program links with come with the compiler or with libc6-dev.
    if said:
        return f"{said}; run: {INSTALL_COMPILER} libc6-dev"
    return f"{error}; {LAST_TRIED}; run: {INSTALL_LAST_TRIED}"


def _load(library: Path) -> None:
    """Load a library, to test that its disk is not mounted without permission to execute.

    Raises:
        MachineError: The library cannot be loaded.
    """
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise MachineError(
            f"the harness's own library does not load: {error}; run: export XDG_CACHE_HOME=FOLDER"
        ) from None
