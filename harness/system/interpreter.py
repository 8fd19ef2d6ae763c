"""Python processes that run modules of the harness."""

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
    """Return the command line that runs one of the harness's modules.

    `-P` keeps the current folder off the import path, because files there may have any name.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


@functools.cache
def compile_bytecode() -> None:
    """Compile all of the harness's bytecode once per process, because a sandbox cannot write it.

    If the package's folder is read-only, sandboxed processes only start more slowly.
    """
    compileall.compile_dir(PACKAGE, quiet=2)


def settle() -> None:
    """Exempt all objects that exist now, such as torch's million, from later garbage collections.

    Without this, the collection at the end of the process takes half a second.
    """
    gc.freeze()


def environment() -> dict[str, str]:
    """Return this process's environment, extended so that the harness can be imported.

    The harness need not be installed: its folder is on PYTHONPATH.
    """
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
