"""Run a submission in this process on a GPU, so that a profiler or a sanitizer can watch it.

    python benchmarks/run_once.py submissions/flat_index.py reference/conv_transpose1d.py
    python benchmarks/run_once.py submissions/flat_index.py reference/*.py --all

The submission runs once in the reduced configuration of each reference. With `--all`, it runs in
every case of each reference's grid, and for one input of length 1028. The harness builds the
submission, or takes the build from its cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import torch

from harness.compiler.builder import Builder
from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Target
from harness.evaluate import Request, settings_for
from harness.problems.discovery import discover
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem, load
from harness.problems.values import runs_for, values_for

# This length is several tiles of every kernel here, but not a whole number of them.
_LONG = 1028
_BUILD_SECONDS = 900.0


def main() -> None:
    """Construct the submission and call its forward, in one case or all cases of each reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("submission", type=Path)
    parser.add_argument("problems", type=Path, nargs="+")
    parser.add_argument("--all", action="store_true", help="every case")
    asked = parser.parse_args()
    (submission,) = discover([asked.submission]).submissions
    module = _imported(asked.submission.resolve(), asked.problems[0])
    for path in asked.problems:
        problem = load(path)
        cases: Sequence[Case] = cases_for(problem, submission)
        for case in [*cases, *_longer(cases[0])] if asked.all else [cases[0]]:
            _run(module, problem, case)


def _longer(case: Case) -> Iterator[Case]:
    shapes = tuple((1, shape[1], _LONG) for shape in case.input_shapes)
    yield replace(case, input_shapes=shapes)


def _run(module: Any, problem: Problem, case: Case) -> None:
    values = values_for(problem, case, runs_for(problem)[0])
    model = module.ModelNew(**case.arguments).cuda()
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), values.weights.values(), strict=False):
            parameter.copy_(weight)
        try:
            model(*(each.cuda() for each in values.inputs))
        except (RuntimeError, ValueError, NotImplementedError) as refusal:
            torch.cuda.synchronize()
            print(f"declined: {str(refusal).splitlines()[0]}")
    torch.cuda.synchronize()


def _imported(path: Path, reference: Path) -> Any:
    settings = settings_for(Request(path, reference, "cuda"))
    compiler = Compiler(settings.toolchain, (path,), seconds=_BUILD_SECONDS)
    target = Target("cuda", settings.architecture)
    builder = Builder(settings.toolchain, Cache(settings.cache), target, compiler)
    ExtensionLoader(path, lambda asked: builder.build(asked).library.read_bytes()).install()
    # The prefix keeps a submission apart from a package of the same name.
    return SourceFileLoader(f"submission_{path.stem}", str(path)).load_module()


if __name__ == "__main__":
    main()
