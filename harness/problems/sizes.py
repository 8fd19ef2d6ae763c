"""A reference with other values for the constants that its file states."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache

import torch

from harness.problems.configuration import Configuration
from harness.problems.constants import names_of_inputs
from harness.problems.instance import ModelInstance
from harness.problems.operations import Operation, TooManyError, is_stretched, work_of
from harness.problems.problem import Problem

# Of one call on the CPU, which tells whether the reference works: above, its shapes must do.
_MOST_TRIED = 1 << 26

# Of one call, such as of a recurrent model: an operator takes its time, however few its numbers.
_MOST_OPERATORS = 1 << 11


class ProblemSizes:
    """As `families.family.Sizes`.

    Args:
        problem: The reference.
        taken: Names of the constructor arguments that the submission takes, too.
    """

    def __init__(self, problem: Problem, taken: frozenset[str]) -> None:
        self._problem = problem
        self._taken = taken
        self._endless: list[Mapping[str, int]] = []

    @property
    def constants(self) -> Mapping[str, int]:
        """The reference's own, by name."""
        return self._problem.constants

    @cached_property
    def of_inputs(self) -> frozenset[str]:
        """Names of those that its inputs are made from."""
        return names_of_inputs(self._problem.tree)

    @cached_property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of the ones in what is the whole shape of a weight, such as `(channels, 1, 1)`.

        That is how a reference says along which dimensions the weight is the same.
        """
        own = self._problem
        ones = [name for name, value in own.constants.items() if value == 1 and "[" in name]
        shapes = _passed_shapes(own, {}) if ones else set()
        return frozenset(
            name
            for name in ones
            for weight, shape in _passed_shapes(own, {name: 2}) - shapes
            if any(each == weight and len(was) == len(shape) for each, was in shapes)
        )

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """What some values give; None where the reference does not work with them."""
        if not _works(self._problem, _plain(constants)):
            return None
        problem = self._problem.at(constants)
        return _configuration(self._problem, problem, self._taken)

    def work(self, constants: Mapping[str, int]) -> float:
        """Numbers that a call reads, makes, multiplies or keeps; infinite where it does not work.

        It does not where torch stretches what has size 1, such as a mask of one row and column,
        over what it has to be as large as: that says nothing of what the reference means.

        So it is where too many operators are called. Of larger sizes that is not tried again: they
        make a loop no shorter.
        """
        if any(_is_no_less(constants, each) for each in self._endless):
            return math.inf
        try:
            return _work(self._problem, _plain(constants))
        except TooManyError:
            self._endless.append(constants)
            return math.inf


def _is_no_less(constants: Mapping[str, int], than: Mapping[str, int]) -> bool:
    return all(constants[name] >= value for name, value in than.items())


def _passed_shapes(own: Problem, constants: Mapping[str, int]) -> set[tuple[str, tuple[int, ...]]]:
    """Weights that have the shape of one of the constructor's arguments; none if it is no model."""
    with torch.device("meta"), suppress(Exception):  # what a reference raises is its own
        problem = own.at(constants)
        passed = [tuple(x) for x in problem.arguments.values() if isinstance(x, tuple | list)]
        weights = problem.build(problem.arguments).named_parameters()
        return {(name, tuple(w.shape)) for name, w in weights if tuple(w.shape) in passed}
    return set()


_Constants = tuple[tuple[str, int], ...]


def _plain(constants: Mapping[str, int]) -> _Constants:
    return tuple(sorted(constants.items()))


def _configuration(own: Problem, problem: Problem, taken: Collection[str]) -> Configuration:
    constants = own.constants
    return Configuration(
        arguments={n: v for n, v in problem.arguments.items() if n in taken},
        input_shapes=problem.input_shapes,
        input_dtypes=tuple(spec.dtype for spec in problem.inputs),
        constants={n: v for n, v in problem.constants.items() if v != constants[n]},
        numbers=dict(problem.numbers),
    )


# Every submission for a reference asks the same.
@lru_cache(maxsize=1 << 12)
def _work(own: Problem, constants: _Constants) -> float:
    try:
        problem = own.at(dict(constants))
        configuration = _configuration(own, problem, problem.arguments)
        work = work_of(problem, configuration, _MOST_OPERATORS)
    except TooManyError:
        raise
    except Exception:  # what a reference raises on sizes that it does not take is its own
        return math.inf
    if is_stretched(work.operations, _own_operations(own)):
        return math.inf
    return work.numbers + sum(math.prod(shape) for shape in problem.input_shapes)


@lru_cache(maxsize=1 << 4)
def _own_operations(own: Problem) -> Sequence[Operation]:
    """Those of its own sizes; none where they are too many, or only values tell."""
    try:
        return work_of(own, _configuration(own, own, own.arguments), _MOST_OPERATORS).operations
    except Exception:  # as above
        return ()


@lru_cache(maxsize=1 << 12)
def _works(own: Problem, constants: _Constants) -> bool:
    """Try it out as the oracle does: on the meta device, and in float32, more is accepted.

    A call that gives nothing tells nothing.
    """
    try:
        work = _work(own, constants)
    except TooManyError:
        return False
    if work > _MOST_TRIED:
        return math.isfinite(work)
    problem = own.at(dict(constants))
    configuration = _configuration(own, problem, problem.arguments)
    try:
        outputs = [
            ModelInstance(each, configuration)({}, problem.make_inputs(seed=0))
            for each in problem.each_output()
        ]
    except Exception:  # as above
        return False
    return all(output.numel() > 0 for output in outputs)
