"""Constructor calls of a case's `ModelNew`: KernelBench's call, or a call by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from harness.problems.configuration import ConstructorCall
from harness.problems.discovery import Kind, Submission
from harness.problems.problem import Problem


def own_call(
    problem: Problem, submission: Submission, arguments: Mapping[str, object]
) -> ConstructorCall:
    """Return the call for the problem's own configuration.

    It is KernelBench's own, positional call if it means the same to the submission.

    Args:
        problem: The reference, with the constants of the case.
        submission: A submission that fits the problem.
        arguments: The problem's own arguments that the submission takes.

    Returns:
        The result of `get_init_inputs()`. If the submission has the parameters in another order, or
        lacks some, it is every argument by name.
    """
    call = problem.init_inputs
    names = problem.parameter_names[: len(call.positional)]
    means_the_same = _takes_in_order(submission, names) and all(
        submission.accepts(name) for name in call.named
    )
    # An argument that the call leaves out gets the default of either class. That is only safe for
    # parameters of the submission that have a default.
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
    """Return a call that names its arguments; half of the cases omit those with Model's defaults.

    Args:
        problem: The reference.
        submission: A submission that fits the problem.
        arguments: The case's arguments.
        case_id: The case's id, which decides whether defaults are omitted, alike in every run.
    """
    # Omitting an argument checks that ModelNew has Model's default. A hash of the id decides, not
    # the seed, so that the case makes the same call in every run.
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
