"""Measure what the HTML page costs: the same `harness check` with --html and without, by turns.

    python benchmarks/page_cost.py submissions/grid3d.py --reference reference/conv_transpose1d.py

All arguments but `--rounds` are passed on to `harness check`.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROUNDS = 7


def measure(arguments: list[str], rounds: int) -> None:
    """Print the median elapsed seconds and processor seconds of a check, without and with --html.

    `arguments` are those of `harness check`.
    """
    check = [sys.executable, "-m", "harness", "check", *arguments, "--seed", "1"]
    taken: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        commands = {"without": check, "with": [*check, "--html", str(page)]}
        # The first check builds.
        _seconds(check)
        for number in range(rounds):
            # The order alternates, so that neither command always runs second.
            for name in sorted(commands, reverse=bool(number % 2)):
                taken[name].append(_seconds(commands[name]))
        print(f"{page.stat().st_size:,} bytes")
    for place, what in enumerate(("passed", "of processors")):
        without, with_page = (
            statistics.median(each[place] for each in taken[name]) for name in ("without", "with")
        )
        more = 100 * (with_page / without - 1)
        print(f"{without:.2f} s {what} without, {with_page:.2f} s with: {more:+.1f} %")


def _seconds(command: list[str]) -> tuple[float, float]:
    start, before = time.monotonic(), _busy()
    # A submission that is wrong takes the same steps, so its status does not matter.
    subprocess.run(command, check=False, capture_output=True)
    return time.monotonic() - start, _busy() - before


def _busy() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    options, rest = parser.parse_known_args()
    measure(rest, options.rounds)
