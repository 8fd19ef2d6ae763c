"""Start the harness's own modules as processes."""

from __future__ import annotations

import compileall
import functools
import gc
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The harness's own code."""


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs one of the harness's modules.

    The current folder is kept off the import path (`-P`): files there may have any name.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


@functools.cache
def compile_bytecode() -> None:
    """See that all of the harness's bytecode is there: a sandbox may not write it.

    Where nobody may write it, its processes only start more slowly.
    """
    compileall.compile_dir(PACKAGE, quiet=2)


def settle() -> None:
    """Spare what is imported by now, torch's million objects, every later collection of garbage.

    The last of those takes half a second, when the process ends.
    """
    gc.freeze()


def environment() -> dict[str, str]:
    """This process's environment, in which the harness can be imported, installed or not."""
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
