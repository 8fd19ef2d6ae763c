"""Tests of the constructor call of `ModelNew` in a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.problems.configuration import ConstructorCall
from harness.problems.construction import call_by_name, own_call
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.grid import cases_for
from harness.problems.problem import Problem, load
from tests.support import REFERENCE


def submission(*parameters: ConstructorParameter | str) -> Submission:
    """Return a submission whose `ModelNew` constructor has these parameters.

    A parameter that is given by its name alone is required.
    """
    taken = (
        p if isinstance(p, ConstructorParameter) else ConstructorParameter(p) for p in parameters
    )
    return Submission("kernel", Path("kernel.py"), "0" * 64, tuple(taken))


def optional(name: str, default: object) -> ConstructorParameter:
    """Return a parameter of a constructor that has a default."""
    return ConstructorParameter(name, required=False, default=default)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load(REFERENCE / "conv_transpose1d.py")


SIZES = ("in_channels", "out_channels", "kernel_size")
ORDER = (*SIZES, "stride", "padding", "output_padding", "groups", "bias")
TAKEN: tuple[ConstructorParameter | str, ...] = (
    *SIZES,
    *(optional(name, None) for name in ORDER[3:]),
)


@pytest.mark.parametrize(
    ("parameters", "is_positional"),
    [
        (TAKEN, True),
        ((*TAKEN, optional("dilation", 1)), True),
        ((ConstructorParameter("args", Kind.VAR_POSITIONAL, required=False),), True),
        # With these parameters, the problem's own call would build another model, or fail.
        ((*TAKEN[1::-1], *TAKEN[2:]), False),
        (SIZES[:2], False),
        ((*TAKEN, "dilation"), False),
        (ORDER, False),
        ((*SIZES[:2], ConstructorParameter("kernel_size", Kind.KEYWORD_ONLY)), False),
    ],
)
def test_own_call_is_kernelbenchs_where_it_means_the_same(
    problem: Problem, parameters: tuple[ConstructorParameter | str, ...], is_positional: bool
) -> None:
    """The case of the reference's own sizes calls `ModelNew(*get_init_inputs())`.

    KernelBench makes the same call. If this call would construct another model or fail, every
    argument is passed by name instead.
    """
    assert tuple(problem.parameter_names) == ORDER
    call = own_call(problem, submission(*parameters), problem.arguments)
    by_name = ConstructorCall((), dict(problem.arguments))
    assert call == (problem.init_inputs if is_positional else by_name)


def test_own_case_leaves_out_what_get_init_inputs_does(problem: Problem) -> None:
    """The case of the reference's own sizes omits the arguments that get_init_inputs() omits.

    So a default of `ModelNew` that differs from the default of `Model` has an effect.
    """
    own = cases_for(problem, submission(*TAKEN))[0]
    assert own.constructor_call == problem.init_inputs
    assert len(own.constructor_call.positional) < len(ORDER)


def test_half_of_the_cases_leave_out_defaults(problem: Problem) -> None:
    """An argument that equals its default is passed in some cases and omitted in others."""
    found = submission(*SIZES, *(optional(name, problem.defaults[name]) for name in ORDER[3:]))
    calls = [case.constructor_call for case in cases_for(problem, found)[1:]]
    for name in ORDER[3:]:
        given = sum(call.named.get(name) == problem.defaults[name] for call in calls)
        left_out = sum(name not in call.named for call in calls)
        assert min(given, left_out) >= 5, name


def test_what_is_required_is_never_left_out(problem: Problem) -> None:
    """A parameter that `ModelNew` requires always gets an argument.

    This holds even if the parameter has a default in `Model`.
    """
    arguments = {"kernel_size": 3, "stride": 1, "padding": 0}
    found = submission("kernel_size", "stride", optional("padding", 0))
    calls = [call_by_name(problem, found, arguments, str(number)) for number in range(20)]
    assert {tuple(call.named) for call in calls} == {
        ("kernel_size", "stride"),
        ("kernel_size", "stride", "padding"),
    }
