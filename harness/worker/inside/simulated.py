"""A worker that is started as a new process, with the simulator's CUDA runtime.

`python -m harness.worker.inside.simulated RUNTIME DESCRIPTOR INSTRUCTIONS`; the last two arguments
are the same as for main.py.
"""

from __future__ import annotations

import ctypes
import runpy
import sys


def main() -> None:
    """Load the simulator's runtime, then run the worker.

    The runtime must be loaded before torch, because a torch that was built for CUDA loads CUDA's
    own runtime. The dynamic linker resolves a name to the library that was loaded first.
    """
    ctypes.CDLL(sys.argv.pop(1), mode=ctypes.RTLD_GLOBAL)
    runpy.run_module("harness.worker.inside.main", run_name="__main__")


if __name__ == "__main__":
    main()
