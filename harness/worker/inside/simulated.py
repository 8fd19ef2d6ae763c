"""A worker whose CUDA runtime is the simulator's.

`python -m harness.worker.inside.simulated RUNTIME DESCRIPTOR SETTINGS`; the last two are main.py's.
"""

from __future__ import annotations

import ctypes
import runpy
import sys


def main() -> None:
    """Load the runtime before torch: one that was built for CUDA loads the real one.

    The dynamic linker gives what is loaded later the functions that were there first.
    """
    ctypes.CDLL(sys.argv.pop(1), mode=ctypes.RTLD_GLOBAL)
    runpy.run_module("harness.worker.inside.main", run_name="__main__")


if __name__ == "__main__":
    main()
