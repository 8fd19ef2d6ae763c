"""Run submissions under compute-sanitizer, on a machine with a GPU.

    python benchmarks/sanitize_submissions.py submissions/wgmma_tf32.py submissions/shared_memory.py

Each submission runs under all four tools, in every case of every reference that it fits. The output
is a table of the numbers of errors. If a run fails, the last lines of its output are printed too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_machine import describe_gpu
from sanitizer_corpus import TOOLS
from tabulate import tabulate

from harness.problems.discovery import discover, fits
from harness.problems.references import load_references

_AT_A_TIME = 12
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
# Each tensor gets an allocation of its own, so that the tool sees its bounds.
_ENVIRONMENT = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def main() -> None:
    """Run all submissions on the command line, and print the table of errors."""
    submissions = discover([Path(name) for name in sys.argv[1:]]).submissions
    problems = load_references([Path("reference")])
    rows = []
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        for submission in submissions:
            own = [problem.path for problem in problems if fits(submission, problem) is None]
            runs = [threads.submit(examine, tool, submission.path, own) for tool in TOOLS]
            rows.append((submission.name, runs))
        table = [(name, *(run.result() for run in runs)) for name, runs in rows]
    print(describe_gpu())
    print(tabulate(table, headers=("submission", *TOOLS), tablefmt="github"))


def examine(tool: str, submission: Path, problems: Sequence[Path]) -> str:
    """Run a submission under one tool of compute-sanitizer; return the number of errors as text.

    If the run fails, print the end of its output.
    """
    script = [sys.executable, "benchmarks/run_once.py", str(submission), *map(str, problems)]
    command = ["compute-sanitizer", "--tool", tool, *script, "--all"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    summary = _SUMMARY.search(done.stdout)
    if summary is None or done.returncode:
        print(f"{tool}, {submission.stem}:\n{(done.stdout + done.stderr)[-2000:]}")
    return summary[1] if summary else "none told"


if __name__ == "__main__":
    main()
