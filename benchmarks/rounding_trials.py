"""Compare the errors of references in float16 and bfloat16 with those of rounding trials.

Run `python benchmarks/rounding_trials.py REFERENCES...`. A rounding trial estimates the error that
rounding may cause where no rigorous bound is known.

Each reference is called on the CPU, in the sizes that the harness uses on the simulator. It is
called once for each run (set of input values) in which float16 does not overflow. For each element
whose exact value is not 0, the error is divided by the largest error of the trials. The figure of
an output in a run is the median of these ratios. The figure of a reference is the largest figure of
all its outputs and runs.
Where no bound is known, the harness fails a submission at a figure of four.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from bound_tightness import ANY

from harness.judging.oracle import expected
from harness.problems.grid import cases_for
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem
from harness.problems.references import load_references
from harness.problems.values import runs_for, values_for

FORMATS = (torch.float16, torch.bfloat16)


def medians(problem: Problem) -> Iterator[tuple[float, str]]:
    """Yield (figure, name) for each run, output and format; a name is like "RUN in float16".

    The figure is that of the module's docstring.
    """
    (case,) = cases_for(problem, ANY, "own", "simulator", seed=1)
    at = problem.at(case.constants)
    for run in runs_for(at):
        values = values_for(at, case, run)
        for output in at.each_output():
            right = expected(output, case, values.weights, values.inputs)
            tried, exact = right.tried, right.value
            if tried is None or bool(tried.isnan().all()) or not bool(exact.any()):
                continue
            for kind in FORMATS:
                given = ModelInstance(output, case)(values.weights, values.inputs, kind)
                error = (given.double() - exact).abs()[exact != 0]
                ratio = error / tried[exact != 0]
                yield float(ratio.nanmedian()), f"{run.name} in {str(kind).removeprefix('torch.')}"


def main() -> None:
    """Print the largest figure of each reference, and the largest of all references."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("references", nargs="+", type=Path)
    warnings.simplefilter("ignore")
    largest: list[tuple[float, str]] = []
    for problem in load_references(parser.parse_args().references):
        try:
            found = list(medians(problem))
        except (NotImplementedError, RuntimeError) as error:
            print(f"{problem.name}: {str(error).splitlines()[0]}", flush=True)
            continue
        if found:
            median, where = max(found)
            print(f"{problem.name}: {median:.3g} ({where})", flush=True)
            largest.append((median, problem.name))
    median, name = max(largest)
    print(f"of {len(largest)} references the largest is {median:.3g} ({name})")


if __name__ == "__main__":
    main()
