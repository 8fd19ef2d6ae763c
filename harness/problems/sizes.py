"""A reference with other values for the constants in its file."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache

import torch

from harness.problems.configuration import Configuration
from harness.problems.constants import is_literal_one, names_of_inputs
from harness.problems.instance import ModelInstance
from harness.problems.operations import (
    ReferenceOperation,
    TooLargeError,
    TooManyError,
    is_stretched,
    work_of,
)
from harness.problems.problem import Problem

# Limit of work for a trial call on the CPU. Above it, no sizes are accepted.
_MOST_TRIED = 1 << 26

# Limit of operators in one call, such as of a recurrent model. Each operator takes time, however
# few elements it has.
_MOST_OPERATORS = 1 << 11


class ProblemSizes:
    """The implementation of `families.family.Sizes` for one reference.

    Args:
        problem: The reference.
        taken: Names of the reference's constructor arguments that the submission takes too.
    """

    def __init__(self, problem: Problem, taken: frozenset[str]) -> None:
        self._problem = problem
        self._taken = taken
        self._endless: list[Mapping[str, int]] = []

    @cached_property
    def constants(self) -> Mapping[str, int]:
        """Values of the constants in the reference's file, by name.

        A literal 1 is included only if the reference also accepts a 2 in its place.
        """
        own = self._problem
        return {
            name: value
            for name, value in own.constants.items()
            if not is_literal_one(name) or _may_be_2(own, name)
        }

    @cached_property
    def of_inputs(self) -> frozenset[str]:
        """Names of the constants that the reference's `get_inputs` reads."""
        return names_of_inputs(self._problem.tree)

    @cached_property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of the constants that are 1 in a weight's stated shape, as in `(channels, 1, 1)`.

        Such a 1 marks a dimension along which the reference broadcasts the weight. These constants
        are found by trial: setting one to 2 changes the shape of a weight, but not its number of
        dimensions.
        """
        own = self._problem
        ones = [name for name, value in self.constants.items() if value == 1 and "[" in name]
        shapes = _passed_shapes(own, {}) if ones else set()
        return frozenset(
            name
            for name in ones
            for weight, shape in _passed_shapes(own, {name: 2}) - shapes
            if any(each == weight and len(was) == len(shape) for each, was in shapes)
        )

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """Return the configuration for these constants; None if the reference rejects them."""
        if not _works(self._problem, _plain(constants)):
            return None
        problem = self._problem.at(constants)
        return _configuration(self._problem, problem, self._taken)

    def is_within(self, constants: Mapping[str, int], most: int) -> bool:
        """Return whether the work of a call (elements and multiplications) is at most `most`.

        The result is False in three more cases:

        - The reference does not accept the constants.
        - torch broadcasts a size 1 over a size to which it should be equal, as with a mask of one
          row and one column. The reference then accepts the constants only by accident.
        - The call runs too many operators. Larger constants are then not tried again, as they make
          no loop shorter.
        """
        if any(_is_no_less(constants, each) for each in self._endless):
            return False
        work = _work(self._problem, _plain(constants))
        is_within = work.is_within(most)
        if work.is_endless:
            self._endless.append(constants)
        return is_within


def _is_no_less(constants: Mapping[str, int], than: Mapping[str, int]) -> bool:
    return all(constants[name] >= value for name, value in than.items())


def _passed_shapes(own: Problem, constants: Mapping[str, int]) -> set[tuple[str, tuple[int, ...]]]:
    """Return names and shapes of the weights whose shape is passed as a constructor argument.

    The result is empty if the model cannot be built.
    """
    with torch.device("meta"), suppress(Exception):  # a reference may raise anything
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


class _Work:
    """The work of a call with given constants, measured only as far as a limit requires.

    Attributes:
        is_endless: True if the call turned out to run too many operators.
    """

    def __init__(self, own: Problem, constants: _Constants) -> None:
        self.is_endless = False
        self._own = own
        self._constants = dict(constants)
        self._numbers: float | None = None
        self._more_than = -1

    def is_within(self, most: int) -> bool:
        """Return whether the work (elements and multiplications) is at most `most`."""
        if self._numbers is None and most > self._more_than:
            try:
                self._numbers = self._measured(most)
            except TooLargeError:
                self._more_than = most
        return self._numbers is not None and self._numbers <= most

    def _measured(self, most: int) -> float:
        """Measure the work; return infinity for constants that cannot make a case.

        Raises:
            TooLargeError: The work is more than `most`.
        """
        try:
            problem = self._own.at(self._constants)
            configuration = _configuration(self._own, problem, problem.arguments)
            work = work_of(problem, configuration, _MOST_OPERATORS, most)
        except TooLargeError:
            raise
        except TooManyError:
            self.is_endless = True
            return math.inf
        except Exception:  # a reference may raise anything for sizes that it does not support
            return math.inf
        is_one = is_stretched(work.operations, _own_operations(self._own))
        return math.inf if is_one else work.numbers


# Cached, because every submission for a reference needs the same values.
@lru_cache(maxsize=1 << 12)
def _work(own: Problem, constants: _Constants) -> _Work:
    return _Work(own, constants)


@lru_cache(maxsize=1 << 4)
def _own_operations(own: Problem) -> Sequence[ReferenceOperation]:
    """Return the operators of a call at the reference's own sizes.

    The result is empty if there are too many operators, or if the reference reads tensor values.
    """
    try:
        return work_of(own, _configuration(own, own, own.arguments), _MOST_OPERATORS).operations
    except Exception:  # as above
        return ()


@lru_cache(maxsize=1 << 8)
def _may_be_2(own: Problem, name: str) -> bool:
    """Return whether the reference accepts a 2 for one constant of 1, with all others unchanged.

    The result is False if torch then broadcasts another size of 1 over the 2. Such a broadcast
    shows that the constant of 1 stands for a dimension that is broadcast.
    """
    operations = _own_operations(own)
    try:
        at = own.at({name: 2})
        others = work_of(at, _configuration(own, at, at.arguments), _MOST_OPERATORS).operations
    except Exception:  # as above
        return False
    return bool(operations) and not is_stretched(others, operations, least=1)


@lru_cache(maxsize=1 << 12)
def _works(own: Problem, constants: _Constants) -> bool:
    """Return whether the reference accepts the constants, by a call in float64 on the CPU.

    The expected outputs come from calls of this kind. A call on the meta device or in float32 does
    not suffice, because torch accepts more constants there. The result is False for an empty
    output, which checks nothing, and for too much work.
    """
    if not _work(own, constants).is_within(_MOST_TRIED):
        return False
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
