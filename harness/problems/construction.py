"""How a case's `ModelNew` is called: as KernelBench does, by name, or leaving out defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from harness.problems.configuration import ConstructorCall
from harness.problems.discovery import Kind, Submission
from harness.problems.problem import Problem


def own_call(
    problem: Problem, submission: Submission, arguments: Mapping[str, object]
) -> ConstructorCall:
    """Give the problem's own call: KernelBench's, where that means the same to the submission.

    Args:
        problem: The reference, with the constants of the case.
        submission: One that fits it.
        arguments: The problem's own, as far as the submission takes them.

    Returns:
        What `get_init_inputs()` gives; every argument by its name where the submission has them in
        another order, or has not all of them.
    """
    call = problem.init_inputs
    names = problem.parameter_names[: len(call.positional)]
    means_the_same = _takes_in_order(submission, names) and all(
        submission.accepts(name) for name in call.named
    )
    # A parameter that is not given has the default of either class, and that must be the same.
    given = {*names, *call.named}
    required = {p.name for p in submission.parameters if p.required}
    return call if means_the_same and required <= given else ConstructorCall((), dict(arguments))


def _takes_in_order(submission: Submission, names: tuple[str, ...]) -> bool:
    by_position = [p for p in submission.parameters if p.kind is Kind.POSITIONAL_OR_KEYWORD]
    takes_more = any(p.kind is Kind.VAR_POSITIONAL for p in submission.parameters)
    theirs = tuple(p.name for p in by_position[: len(names)])
    return theirs == (names[: len(theirs)] if takes_more else names)


def call_by_name(
    problem: Problem, submission: Submission, arguments: Mapping[str, object], case_id: str
) -> ConstructorCall:
    """Give a call that names its arguments; in half of the cases it leaves out Model's defaults.

    Args:
        problem: The reference.
        submission: One that fits it.
        arguments: The case's.
        case_id: What decides whether defaults are left out, the same way in every run.
    """
    if hashlib.sha256(case_id.encode()).digest()[0] % 2:
        return ConstructorCall((), dict(arguments))
    required = {p.name for p in submission.parameters if p.required}
    return ConstructorCall(
        (),
        {
            name: value
            for name, value in arguments.items()
            if name in required or not _is_default(problem, name, value)
        },
    )


def _is_default(problem: Problem, name: str, value: object) -> bool:
    return name in problem.defaults and problem.defaults[name] == value
