"""Choice of the constructor call for `ModelNew`: KernelBench's call, or one with keywords."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from harness.problems.configuration import ConstructorCall
from harness.problems.discovery import Kind, Submission
from harness.problems.problem import Problem


def own_call(
    problem: Problem, submission: Submission, arguments: Mapping[str, object]
) -> ConstructorCall:
    """Return the call that constructs `ModelNew` with the reference's own arguments.

    KernelBench passes the arguments that `get_init_inputs()` returns. Its call is kept if each
    argument reaches the parameter of `ModelNew` with the same name as in `Model`.

    Args:
        problem: The reference, with the constants of the case.
        submission: A submission that fits the problem.
        arguments: The reference's own arguments that the submission's constructor takes, by name.

    Returns:
        KernelBench's call. If the submission orders its parameters differently, lacks some or
        requires others, the result is a call that passes all `arguments` as keywords.
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
    """Return a call with keyword arguments; in half of the cases, it omits default values.

    A value is omitted only if it equals `Model`'s default, and if `ModelNew` does not require the
    parameter.

    Args:
        problem: The reference.
        submission: A submission that fits the problem.
        arguments: The case's arguments, by name.
        case_id: The case's id. Its hash decides whether defaults are omitted, so the call is the
            same each time.
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
