"""How far references in float16 and bfloat16 are off, beside what trials of rounding make.

Run `python benchmarks/rounding_trials.py REFERENCES...`. Each reference is called on the CPU in the
sizes that it has on the simulator, with each run's values but where float16 overflows. Told is the
error over the largest of the trials, in the median over the elements that are not 0: the largest of
a reference's runs and outputs. A submission fails at four, where a bound says nothing.
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
    """Of each run, output and format, with their names."""
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
    """Print a line for each reference, and the largest of all."""
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
