"""Compare the bound of rounding errors with the actual errors of PyTorch's float32 on the CPU.

Run `python benchmarks/bound_tightness.py REFERENCES...`. Each reference is called on the CPU, in
the sizes that the harness uses on the simulator, once for each run (set of input values). For each
run whose output has an error, the program prints two numbers:

- the largest bound of any element, divided by the largest error of any element;
- the least ratio of bound to error in one element.

The reciprocal of the second number is the "worst error" of a report.

For each reference, the program takes the median of the first numbers, and the least of the second
ones. Its last lines give the median and the largest of these values over all references.
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
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.grid import Case, cases_for
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem, ProblemError, load
from harness.problems.references import reference_files
from harness.problems.values import runs_for, values_for

ANY = Submission(
    "any",
    Path("any.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)


def ratios(problem: Problem) -> Iterator[tuple[str, float, float]]:
    """Yield (run, first, second) for each run and output of a problem that has an error.

    The two numbers are those of the module's docstring.
    """
    (case,) = cases_for(problem, ANY, "own", "simulator", seed=1)
    for at in problem.at(case.constants).each_output():
        yield from _ratios(at, case)


def _ratios(problem: Problem, case: Case) -> Iterator[tuple[str, float, float]]:
    for run in runs_for(problem):
        values = values_for(problem, case, run)
        new_instance = partial(ModelInstance, problem, case)
        right = problem.family.expected(new_instance, values.weights, values.inputs)
        if right.estimated:
            print(f"{problem.name}: {right.estimated}")
            return
        single = new_instance()(values.weights, values.inputs, torch.float32)
        error = (single.double() - right.value.double()).abs()
        bound = right.bound(CLASSES[0])
        if bool((error > bound).any()):
            print(f"{problem.name}: beyond the bound with {run.name}")
        if bool(error.any()) and bool(bound.isfinite().all()):
            yield (
                run.name,
                float(bound.max() / error.max()),
                float((bound / error)[error > 0].min()),
            )


def main() -> None:
    """Print the numbers of each reference, and then the medians and maxima of all references."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("references", nargs="+", type=Path)
    warnings.simplefilter("ignore")
    typical: list[float] = []
    least: list[float] = []
    for path in reference_files(parser.parse_args().references):
        try:
            problem = load(path)
        except ProblemError as error:
            print(error)
            continue
        found = list(ratios(problem))
        told = ", ".join(f"{name} {largest:.3g} {each:.3g}" for name, largest, each in found)
        print(f"{problem.name}: {told}", flush=True)
        if found:
            typical.append(statistics.median(largest for _, largest, _ in found))
            least.append(min(each for _, _, each in found))
    for words, figures in (("largest by largest", typical), ("least of an element", least)):
        if figures:
            median, worst = statistics.median(figures), max(figures)
            print(f"{words}: median {median:.3g}, worst {worst:.3g}, of {len(figures)}")


if __name__ == "__main__":
    main()
