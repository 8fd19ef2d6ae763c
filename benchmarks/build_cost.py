"""What building a submission costs: torch's own load_inline against the harness, both cold.

    PYTHONPATH=. python benchmarks/build_cost.py submissions/flat_index.py ...

Each file is imported in a process of its own with an empty folder for builds; what importing
torch takes is in both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PLAIN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""

_HARNESS = """
import sys
from pathlib import Path
import torch
from harness.evaluate import Request, settings_for
from harness.worker.supervisor import Deadlines, Worker
device = "cuda" if torch.cuda.is_available() else "simulator"
settings = settings_for(Request(Path(sys.argv[1]), Path("unused"), device))
with Worker(settings, Deadlines(), lambda event: None) as worker:
    answer = worker.request("import").header
    sys.exit(answer.get("fault") and str(answer["fault"]))
"""


def _seconds(script: str, submission: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCH_EXTENSIONS_DIR": folder, "XDG_CACHE_HOME": folder}
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", script, str(submission)], env=environment, check=True)
        return time.perf_counter() - start


def main() -> None:
    """Print a line for each file on the command line."""
    for name in sys.argv[1:]:
        own, plain = _seconds(_HARNESS, Path(name)), _seconds(_PLAIN, Path(name))
        print(f"{name}: harness {own:.1f} s, torch {plain:.1f} s, ratio {own / plain:.2f}")


if __name__ == "__main__":
    main()
