"""Compare the time of a cold build by torch's own load_inline with the time by the harness.

    PYTHONPATH=. python benchmarks/build_cost.py submissions/flat_index.py ...

Each file is built twice, each time in a new process with empty caches. The measured time is that of
the call of load_inline. It does not contain the import of torch, which takes equally long in both
processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

_TORCH = """
import importlib.util, sys, time
import torch.utils.cpp_extension as extension
own, seconds = extension.load_inline, 0.0
def timed(*arguments, **options):
    global seconds
    start = time.perf_counter()
    try:
        return own(*arguments, **options)
    finally:
        seconds += time.perf_counter() - start
extension.load_inline = timed
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(seconds)
"""

_HARNESS = """
import sys
from pathlib import Path
import torch
from harness.evaluate import Request, evaluate
device = "cuda" if torch.cuda.is_available() else "simulator"
submission, problem = map(Path, sys.argv[1:])
report = evaluate(Request(submission, problem, device))
assert report.builds and not any(build.reused for build in report.builds), report.message
print(sum(build.seconds for build in report.builds))
"""


def _seconds(script: str, *arguments: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCH_EXTENSIONS_DIR": folder, "XDG_CACHE_HOME": folder}
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return float(done.stdout.split()[-1])


def main() -> None:
    """Print both times and their ratio for each file on the command line."""
    for name in sys.argv[1:]:
        own = _seconds(_HARNESS, name, "reference/conv_transpose1d.py")
        plain = _seconds(_TORCH, name)
        print(f"{name}: harness {own:.1f} s, torch {plain:.1f} s, ratio {own / plain:.2f}")


if __name__ == "__main__":
    main()
