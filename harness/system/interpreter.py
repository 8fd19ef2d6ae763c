"""Command lines, environment and settings of Python processes that run modules of the harness."""

from __future__ import annotations

import compileall
import functools
import gc
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the harness's own code."""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of the harness in a new Python process.

    `-P` keeps the current folder off the import path, because files in it may have any name.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


@functools.cache
def compile_bytecode() -> None:
    """Compile all modules of the harness to bytecode, because a sandbox cannot write bytecode.

    This is done once in each process. If the package's folder is read-only, sandboxed processes
    start more slowly, without an error.
    """
    compileall.compile_dir(PACKAGE, quiet=2)


def settle() -> None:
    """Exempt all existing objects, of which torch has a million, from later garbage collections.

    Without this, the collection at the end of the process takes half a second.
    """
    gc.freeze()


def environment() -> dict[str, str]:
    """Return this process's environment variables, with the harness's folder on PYTHONPATH.

    So a new Python process can import the harness even if it is not installed.
    """
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
