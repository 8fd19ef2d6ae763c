"""The torch operators that a reference calls, with their sizes, recorded on the meta device."""

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
        name: torch's name, such as "aten::_softmax".
        made: Number of elements in its results.
        elements: Number of elements in its largest argument or result.
        products: Number of products; 0 if torch does not count them.
        met: Shapes of the tensors that it combined element by element, if there were several.
        is_view: True if its result is a view of an argument.
    """

    name: str
    made: int
    elements: int
    products: int
    met: tuple[tuple[int, ...], ...] = ()
    is_view: bool = False


@dataclass(frozen=True)
class Work:
    """The work of one call of forward.

    Attributes:
        numbers: Number of elements that it makes, of products, and of elements in the model's
            buffers.
        operations: Its operators, in their order.
    """

    numbers: int
    operations: Sequence[Operation]


class TooManyError(RuntimeError):
    """A call runs more operators than the limit."""


def operations_of(problem: Problem, configuration: Configuration) -> Sequence[Operation]:
    """Return the operators of one call of forward.

    Args:
        problem: The reference.
        configuration: The constructor arguments of `Model`, and the shapes of its inputs.

    Raises:
        Exception: An exception of the reference, such as one that needs values.
    """
    _, operations = _recorded(problem, configuration, math.inf)
    return operations


def operations_with(
    problem: Problem, configuration: Configuration, inputs: Sequence[Tensor]
) -> Sequence[Operation]:
    """Return the operators of one call with actual inputs, for a reference that needs values.

    Raises:
        Exception: An exception of the reference.
    """
    model, recorder = problem.build(configuration.arguments), _Recorder(math.inf)
    with torch.no_grad(), recorder:
        model(*problem.forward_arguments(inputs))
    return recorder.operations


def work_of(problem: Problem, configuration: Configuration, most: int) -> Work:
    """Return the work of one call of forward.

    Args:
        problem: The reference.
        configuration: As in `operations_of`.
        most: The largest allowed number of operators.

    Raises:
        TooManyError: The call runs more operators.
        Exception: An exception of the reference.
    """
    model, operations = _recorded(problem, configuration, most)
    # Buffers count too: a causal mask may have the square of a size, although a call reads only a
    # part.
    kept = sum(buffer.numel() for buffer in model.buffers())
    return Work(kept + sum(each.made + each.products for each in operations), operations)


def is_stretched(operations: Sequence[Operation], own: Sequence[Operation]) -> bool:
    """Return whether torch broadcasts a size 1 over a size that it should equal.

    The two are equal, and larger than 1, in the reference's own call. Such a call works by
    accident, as torch broadcasts size 1 to any size. An example is a mask for one step and a
    sequence of 31 steps.

    Args:
        operations: The operators of a call with other sizes.
        own: The operators of the reference's own call. If the two calls combine elements by
            different operators, the result is False.
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
    """Yield the sizes of all shapes in each dimension, the last one first.

    A shape without that dimension has size 0.
    """
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
    """Return a `Model` and the arguments of its forward on the default device.

    The caller makes meta the default device.
    """
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
