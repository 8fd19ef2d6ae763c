"""Judge versions of a reference as if they were submissions, without starting a process.

A version is the reference with another body of `forward`. It runs in this process, whereas a
submission runs in a worker process and its kernels in a device process.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from harness.judging.compare import compare
from harness.judging.oracle import CLASSES, expected
from harness.problems.bounds import Expected
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.grid import Case, cases_for
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem, load
from harness.problems.runs import Run
from harness.problems.values import calls_for, values_of_call

ANY = Submission(
    "any",
    Path("any.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)
SEED = 1


def every_case(reference: Problem) -> tuple[Case, ...]:
    """Return the quick grid's cases on the simulator, for a constructor that takes any argument."""
    return cases_for(reference, ANY, "quick", "simulator", seed=SEED)


def version(reference: Path, forward: str, folder: Path) -> Problem:
    """Replace the body of a reference's `forward`, write the new file to `folder`, and load it."""
    tree = ast.parse(reference.read_text())
    (model,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model")
    (method,) = (n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward")
    method.body = ast.parse(textwrap.dedent(forward)).body
    path = folder / reference.name
    path.write_text(ast.unparse(ast.fix_missing_locations(tree)))
    return load(path)


def first_wrong(
    reference: Problem,
    versions: Mapping[str, Problem],
    cases: Sequence[Case],
    tightest: Sequence[str] = (),
) -> dict[str, str]:
    """Return, for each version of a reference, the first call whose output is judged wrong.

    Each version gets the calls that a submission gets in the same case. Once a version is found to
    be wrong, it is not judged again.

    Args:
        reference: The unchanged reference, which gives the expected outputs.
        versions: The versions by name.
        cases: The cases to try, in this order.
        tightest: Names of the versions that count as wrong unless they reach the tightest
            precision class, fp32.

    Returns:
        A text for each name: the case, the call and what is wrong, or "" for a version that is
        right in all cases.
    """
    told = dict.fromkeys(versions, "")
    for case in cases:
        left = {name: problem for name, problem in versions.items() if not told[name]}
        if not left:
            break
        for name, message in _in_case(reference.at(case.constants), case, left, tightest):
            told[name] = told[name] or message
    return told


def _in_case(
    reference: Problem, case: Case, versions: Mapping[str, Problem], tightest: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each version that is wrong in a case, with the call and what is wrong."""
    instances = {
        name: [ModelInstance(each, case) for each in problem.at(case.constants).each_output()]
        for name, problem in versions.items()
    }
    for call in calls_for(reference, case):
        values = values_of_call(reference, case, call)
        right = [
            expected(each, case, values.weights, values.inputs) for each in reference.each_output()
        ]
        for name in [*instances]:
            try:
                outputs = [
                    instance(values.weights, values.inputs, torch.float32)
                    for instance in instances[name]
                ]
            except Exception as error:  # an exception counts as wrong, as a submission's does
                message = f"raises {type(error).__name__}: {error}"
            else:
                message = _first_mismatch(call.run, outputs, right, is_tightest=name in tightest)
            if message:
                yield name, f"{case.id}, {call.name}: {message}"
                del instances[name]


def _first_mismatch(
    run: Run, outputs: Sequence[Tensor], right: Sequence[Expected], *, is_tightest: bool
) -> str:
    """Return what is wrong with the first wrong output of a call, or "" if all are right.

    If `is_tightest`, an output outside the tightest precision class, fp32, is wrong, too.
    """
    for output, expected_output in zip(outputs, right, strict=True):
        judged = compare(
            output, expected_output, exact=run.is_exact, is_beyond_half=run.is_beyond_half
        )
        if judged.mismatch:
            return judged.mismatch.message
        if is_tightest and judged.precision != CLASSES[0].name:
            return f"{judged.precision}, {judged.worst} of the bound"
    return ""
