"""Which of torch's operators a reference calls, and on how much: found on the meta device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from harness.problems.configuration import Configuration
from harness.problems.problem import Problem
from harness.problems.watching import Call, WatchingShapes


@dataclass(frozen=True)
class Operation:
    """One call of an operator.

    Attributes:
        name: As torch has it, such as "aten::_softmax".
        made: How many numbers it made.
        elements: Of the largest tensor that it was given, or made.
        products: How many products it formed; 0 where torch does not count them.
        met: The shapes of what it joined element by element, if that was more than one tensor.
        is_view: Whether it only looks at a tensor in another way.
    """

    name: str
    made: int
    elements: int
    products: int
    met: tuple[tuple[int, ...], ...] = ()
    is_view: bool = False


@dataclass(frozen=True)
class Work:
    """What a call of forward does.

    Attributes:
        numbers: How many it makes and multiplies, and a model keeps.
        operations: Its operators, in their order.
    """

    numbers: int
    operations: Sequence[Operation]


class TooManyError(RuntimeError):
    """More operators are called than were asked for."""


def operations_of(problem: Problem, configuration: Configuration) -> Sequence[Operation]:
    """List the operators of one call of forward.

    Args:
        problem: The reference.
        configuration: What `Model` is built with, and the shapes of its inputs.

    Raises:
        Exception: Whatever a reference raises, such as one that needs values.
    """
    _, operations = _recorded(problem, configuration, math.inf)
    return operations


def operations_with(
    problem: Problem, configuration: Configuration, inputs: Sequence[Tensor]
) -> Sequence[Operation]:
    """The same of a reference that needs values, for those of some inputs; raises as that does."""
    model, recorder = problem.build(configuration.arguments), _Recorder(math.inf)
    with torch.no_grad(), recorder:
        model(*problem.forward_arguments(inputs))
    return recorder.operations


def work_of(problem: Problem, configuration: Configuration, most: int) -> Work:
    """Find what a call of forward does.

    Args:
        problem: As of `operations_of`.
        configuration: As of `operations_of`.
        most: How many operators there may be.

    Raises:
        TooManyError: There are more.
        Exception: As of `operations_of`.
    """
    model, operations = _recorded(problem, configuration, most)
    # A mask that is kept may be as large as the square of a size of which a call reads a part.
    kept = sum(buffer.numel() for buffer in model.buffers())
    return Work(kept + sum(each.made + each.products for each in operations), operations)


def is_stretched(operations: Sequence[Operation], own: Sequence[Operation]) -> bool:
    """Whether something of size 1 is joined with all of what has a size that was its own.

    Args:
        operations: Of other sizes.
        own: Of the reference's own. Where others join elements, or more of them, nothing is said.
    """
    joining, were_joining = ([x for x in each if x.met] for each in (operations, own))
    if [x.name for x in joining] != [x.name for x in were_joining]:
        return False
    return any(map(_is_stretched, (x.met for x in joining), (x.met for x in were_joining)))


def _is_stretched(shapes: Sequence[Sequence[int]], own: Sequence[Sequence[int]]) -> bool:
    for sizes, were in zip(_dimensions(shapes), _dimensions(own), strict=False):
        if len(sizes) != len(were):
            continue
        for a, was_a in zip(sizes, were, strict=True):
            for b, was_b in zip(sizes, were, strict=True):
                if a == 1 < b and was_a == was_b > 1:
                    return True
    return False


def _dimensions(shapes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The sizes of all in each dimension, from the last one on; 0 where one has fewer."""
    reversed_shapes = (tuple(reversed(shape)) for shape in shapes)
    return itertools.zip_longest(*reversed_shapes, fillvalue=0)


def _recorded(
    problem: Problem, configuration: Configuration, most: float
) -> tuple[nn.Module, Sequence[Operation]]:
    with torch.device("meta"), torch.no_grad():
        model, arguments = on_meta(problem, configuration)
        recorder = _Recorder(most)
        with recorder:
            model(*arguments)
    return model, recorder.operations


def on_meta(problem: Problem, configuration: Configuration) -> tuple[nn.Module, list[Any]]:
    """A `Model` and the arguments of its forward, where the meta device is the default one."""
    inputs = [
        torch.empty(shape, dtype=getattr(torch, dtype))
        for shape, dtype in zip(configuration.input_shapes, configuration.input_dtypes, strict=True)
    ]
    return problem.build(configuration.arguments), problem.forward_arguments(inputs)


class _Recorder(WatchingShapes):
    def __init__(self, most: float) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self._most = most
        self._alike: dict[Hashable, Operation] = {}

    def called(self, call: Call) -> None:
        operation = self._alike.get(call.key) if call.key else None
        if operation is None:
            operation = _operation(call)
            if call.key:
                self._alike[call.key] = operation
        self.operations.append(operation)
        if len(self.operations) > self._most:
            raise TooManyError


def _operation(call: Call) -> Operation:
    made = _sizes(call.result)
    count = flop_registry.get(call.func.overloadpacket)
    flop = count(*call.args, **call.kwargs, out_val=call.result) if count else 0
    return Operation(
        name=call.func.name().partition(".")[0],
        made=sum(made),
        elements=max([*made, *_sizes((call.args, call.kwargs))], default=0),
        products=int(flop) // 2,
        met=_met(call),
        is_view=_is_view(call.func),
    )


def _is_view(operator: Any) -> bool:
    aliases = [each.alias_info for each in operator._schema.arguments if each.alias_info]
    return bool(aliases) and not any(each.is_write for each in aliases)


def _met(call: Call) -> tuple[tuple[int, ...], ...]:
    if torch.Tag.pointwise not in call.func.tags:
        return ()
    shapes = tuple(tuple(x.shape) for x in tree_leaves(call.args) if isinstance(x, Tensor))
    return shapes if len(shapes) > 1 else ()


def _sizes(values: object) -> list[int]:
    return [each.numel() for each in tree_leaves(values) if isinstance(each, Tensor)]
