"""Measure how noisy the harness's timing is: one submission under two names, timed against itself.

    PYTHONPATH=. python benchmarks/aa_study.py measure runs.json --runs 20     # needs a GPU
    PYTHONPATH=. python benchmarks/aa_study.py report runs.json --picture docs/aa_study.svg

Each run of the measurement starts new processes, as `harness gate` does. The report says in how
many runs the two copies were judged different. It also says how far the speedup over eager PyTorch
varied between runs. `--picture` draws both, and needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from harness.evaluate import Request
from harness.speed.measure import measure
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.speed.statistics import Interval, ratio_of

_PROBLEM = Path("reference/conv_transpose1d_strided_dilated.py")
_SUBMISSION = Path("submissions/strided_dilated.py")
_NAMES = ("first", "second")
_BASELINE = "eager fp32"


def main() -> None:
    """Run the command `measure` or `report`."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--runs", type=int, default=20)
    measuring.add_argument("--seconds", type=float, default=5.0)
    measuring.set_defaults(run=_measure)
    reporting = commands.add_parser("report")
    reporting.add_argument("file", type=Path)
    reporting.add_argument("--picture", type=Path)
    reporting.set_defaults(run=_report)
    options = parser.parse_args()
    options.run(options)


def _measure(options: argparse.Namespace) -> None:
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.py" for name in _NAMES]
        for path in paths:
            shutil.copy(_SUBMISSION, path)
        for number in range(options.runs):
            measured = measure(
                SpeedPlan(
                    request=Request(paths[0], _PROBLEM, "cuda"),
                    entries=tuple(PlannedSubmission(path.stem, path, "fp32") for path in paths),
                    kinds=("eager",),
                    seconds=options.seconds,
                )
            )
            runs.append({name: list(t.samples_ms) for name, t in measured.timings.items()})
            about = {
                "device": measured.conditions.device,
                "driver": measured.conditions.driver,
                "torch": measured.conditions.torch,
                "measured_at": measured.measured_at,
                "submission": _SUBMISSION.stem,
                "problem": _PROBLEM.stem,
            }
            # Write after each run, so that the runs so far are stored if the program is stopped.
            options.file.write_text(json.dumps({**about, "runs": runs}))
            print(f"run {number + 1} of {options.runs}: {len(runs[-1]['first'])} rounds")


def _report(options: argparse.Namespace) -> None:
    study = json.loads(options.file.read_text())
    ratios = [ratio_of(run["first"], run["second"]) for run in study["runs"]]
    speedups = [
        statistics.median(run[_BASELINE]) / statistics.median(run["first"]) for run in study["runs"]
    ]
    apart = sum(not ratio.low <= 1 <= ratio.high for ratio in ratios)
    middle = statistics.median(speedups)
    spread = (max(speedups) - min(speedups)) / middle
    print(f"{study['submission']} on {study['problem']}, {study['device']}, {study['measured_at']}")
    least, most = min(r.value for r in ratios), max(r.value for r in ratios)
    print(f"{len(ratios)} runs; rounds: {[len(run['first']) for run in study['runs']]}")
    print(f"one copy over the other: {least:.5f} to {most:.5f}; intervals without 1: {apart}")
    print(f"speedup over {_BASELINE}: median {middle:.4f}, all within {spread:.3%} of it")
    if options.picture:
        _draw(ratios, speedups, options.picture)


def _draw(ratios: list[Interval], speedups: list[float], target: Path) -> None:
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for number, ratio in enumerate(ratios, 1):
        left.plot([number, number], [ratio.low, ratio.high], color="tab:blue")
        left.plot(number, ratio.value, "o", color="tab:blue", markersize=4)
    left.axhline(1, color="gray", linewidth=0.8)
    left.set(xlabel="run", ylabel="time of one copy over the other", title="A against A")
    right.hist(speedups, bins=10, color="tab:blue")
    right.set(xlabel=f"speedup over {_BASELINE}", ylabel="runs", title="speedup, run by run")
    figure.savefig(target)


if __name__ == "__main__":
    main()
