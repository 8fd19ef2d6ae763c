"""What compute-sanitizer finds in submissions, on a machine with a GPU.

    python benchmarks/sanitize_submissions.py submissions/wgmma_tf32.py submissions/shared_memory.py

Each runs under all four tools in every case of every problem's grid that it takes. Prints a table
of the number of errors; the last lines of output where a run broke off.
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

from harness.discovery import discover, fits
from harness.references import load_references

_AT_A_TIME = 6
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
# Each tensor gets memory of its own, with a bound that is seen.
_ENVIRONMENT = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def main() -> None:
    """Run all of it."""
    submissions = discover([Path(name) for name in sys.argv[1:]]).submissions
    problems = load_references([Path("reference")])
    pairs = [
        (submission.path, problem.path)
        for submission in submissions
        for problem in problems
        if fits(submission, problem) is None
    ]
    for submission in submissions:
        problem = next(problem for path, problem in pairs if path == submission.path)
        # The build, before several of them want it at once.
        subprocess.run(_command(submission.path, problem), check=True, capture_output=True)
    runs = [(tool, *pair) for pair in pairs for tool in TOOLS]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        found = list(threads.map(lambda run: examine(*run), runs))
    rows = [
        (path.stem, problem.stem, *found[4 * i : 4 * i + 4])
        for i, (path, problem) in enumerate(pairs)
    ]
    print(describe_gpu())
    print(tabulate(rows, headers=("submission", "problem", *TOOLS), tablefmt="github"))


def examine(tool: str, submission: Path, problem: Path) -> str:
    """The number of errors; where there is none told, the end of the output."""
    command = ["compute-sanitizer", "--tool", tool, *_command(submission, problem), "--all"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    summary = _SUMMARY.search(done.stdout)
    if summary is None or done.returncode:
        print(f"{tool}, {submission.stem}, {problem.stem}:\n{(done.stdout + done.stderr)[-2000:]}")
    return summary[1] if summary else "none told"


def _command(submission: Path, problem: Path) -> Sequence[str]:
    return sys.executable, "benchmarks/run_once.py", str(submission), str(problem)


if __name__ == "__main__":
    main()
