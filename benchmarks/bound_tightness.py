"""How much wider the bound of rounding errors is than what PyTorch's own float32 errs by.

Run `python benchmarks/bound_tightness.py REFERENCES...`. Each reference is called on the CPU in the
sizes that it has on the simulator, with each run's values; told are the largest bound over the
largest error, for every run in which there is an error, and the medians over references.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from harness.judging.oracle import CLASSES
from harness.problems.discovery import Kind, Parameter, Submission
from harness.problems.grid import cases_for
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem
from harness.problems.references import load_references
from harness.problems.values import runs_for, values_for

ANY = Submission(
    "any", Path("any.py"), "0" * 64, (Parameter("rest", Kind.VAR_KEYWORD, required=False),)
)


def ratios(problem: Problem) -> Iterator[tuple[str, float]]:
    """Of each run with an error, the largest bound over it; infinite where it is beyond."""
    (case,) = cases_for(problem, ANY, "own", "simulator", seed=1)
    at = problem.at(case.constants)
    for run in runs_for(at):
        values = values_for(at, case, run)
        new_instance = partial(ModelInstance, at, case)
        right = at.family.expected(new_instance, values.weights, values.inputs)
        if right.estimated:
            print(f"{problem.name}: {right.estimated}")
            return
        single = new_instance()(values.weights, values.inputs, torch.float32)
        error = (single.double() - right.value.double()).abs()
        bound = right.bound(CLASSES[0])
        if bool((error > bound).any()):
            print(f"{problem.name}: beyond the bound with {run.name}")
        if bool(error.any()) and bool(bound.isfinite().all()):
            yield run.name, float(bound.max() / error.max())


def main() -> None:
    """Print a line for each reference, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("references", nargs="+", type=Path)
    warnings.simplefilter("ignore")
    every: list[float] = []
    for problem in load_references(parser.parse_args().references):
        found = dict(ratios(problem))
        if found:
            every.append(statistics.median(found.values()))
        print(f"{problem.name}:", ", ".join(f"{name} {each:.3g}" for name, each in found.items()))
    if every:
        print(f"median {statistics.median(every):.3g}, worst {max(every):.3g}, of {len(every)}")


if __name__ == "__main__":
    main()
