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
from harness.problems.watching import OperatorCall, WatchingShapes


@dataclass(frozen=True)
class ReferenceOperation:
    """One call of an operator.

    Attributes:
        name: torch's name of the operator, such as "aten::_softmax".
        made: Number of elements in the call's results.
        elements: Number of elements in the call's largest argument or result.
        products: Number of multiplications; 0 if torch does not count them.
        met: Shapes of the tensors that the call combined element by element; empty if it combined
            fewer than two.
        is_view: True if the result is a view of an argument.
    """

    name: str
    made: int
    elements: int
    products: int
    met: tuple[tuple[int, ...], ...] = ()
    is_view: bool = False


@dataclass(frozen=True)
class ReferenceWork:
    """The work of one call of forward.

    Attributes:
        numbers: The larger of two counts, plus the number of elements in the model's buffers. The
            first count adds the elements of the inputs, the elements of the operators' results, and
            the multiplications. The second count is the number of elements in the model's
            parameters.
        operations: The operators that the call runs, in their order.
    """

    numbers: int
    operations: Sequence[ReferenceOperation]


class TooManyError(RuntimeError):
    """Error for a call that runs more operators than the limit."""


class TooLargeError(RuntimeError):
    """Error for a call with more work (elements and multiplications) than the limit."""


def operations_of(problem: Problem, configuration: Configuration) -> Sequence[ReferenceOperation]:
    """Return the operators of one call of forward, made on the meta device.

    Args:
        problem: The reference.
        configuration: The constructor arguments of `Model`, and the shapes of its inputs.

    Raises:
        Exception: An exception of the reference, for example because it reads values of tensors.
    """
    with torch.device("meta"):
        model, arguments = on_meta(problem, configuration)
        return _recorded(model, arguments, _Recorder())


def operations_with(
    problem: Problem, configuration: Configuration, inputs: Sequence[Tensor]
) -> Sequence[ReferenceOperation]:
    """Return the operators of one call with actual inputs, for a reference that reads their values.

    Raises:
        Exception: An exception of the reference.
    """
    model = problem.build(configuration.arguments)
    return _recorded(model, problem.forward_arguments(inputs), _Recorder())


def work_of(
    problem: Problem, configuration: Configuration, most: int, most_numbers: float = math.inf
) -> ReferenceWork:
    """Return the work of one call of forward, made on the meta device.

    Args:
        problem: The reference.
        configuration: The constructor arguments of `Model`, and the shapes of its inputs.
        most: The largest allowed number of operators.
        most_numbers: The largest allowed `ReferenceWork.numbers`; the call ends as soon as they
            exceed it.

    Raises:
        TooManyError: The call runs more operators than `most`.
        TooLargeError: The work exceeds `most_numbers`.
        Exception: An exception of the reference.
    """
    inputs = sum(map(math.prod, configuration.input_shapes))
    if inputs > most_numbers:
        raise TooLargeError
    with torch.device("meta"):
        model, arguments = on_meta(problem, configuration)
        # Buffers count too: a causal mask may have the square of a size, although a call reads only
        # a part.
        kept = sum(buffer.numel() for buffer in model.buffers())
        # Most parameters are read, and so are among the factors of products. An unused one, or a
        # table that is looked up, takes memory all the same.
        parameters = sum(parameter.numel() for parameter in model.parameters())
        if kept + parameters > most_numbers:
            raise TooLargeError
        recorder = _Recorder(most, most_numbers - kept - inputs)
        operations = _recorded(model, arguments, recorder)
    return ReferenceWork(kept + max(inputs + recorder.work, parameters), operations)


def is_stretched(
    operations: Sequence[ReferenceOperation], own: Sequence[ReferenceOperation], least: int = 2
) -> bool:
    """Return whether a call broadcasts a size 1 over a size to which it should be equal.

    Two sizes should be equal if they are equal in the reference's own call. If one of them is 1 in
    another call, that call works only by accident: torch broadcasts size 1 to any size. An example
    is a mask for one step and a sequence of 31 steps.

    Args:
        operations: The operators of a call with other sizes.
        own: The operators of the reference's own call. If the two calls combine elements by
            different operators, the result is False.
        least: Sizes of the reference's own call that are smaller than `least` are ignored.
    """
    joining, were_joining = ([x for x in each if x.met] for each in (operations, own))
    if [x.name for x in joining] != [x.name for x in were_joining]:
        return False
    both = zip(joining, were_joining, strict=True)
    return any(_is_stretched(each.met, was.met, least) for each, was in both)


def _is_stretched(
    shapes: Sequence[Sequence[int]], own: Sequence[Sequence[int]], least: int
) -> bool:
    for sizes, were in zip(_dimensions(shapes), _dimensions(own), strict=False):
        if len(sizes) != len(were):
            continue
        for a, was_a in zip(sizes, were, strict=True):
            for b, was_b in zip(sizes, were, strict=True):
                if a == 1 < b and was_a == was_b >= least:
                    return True
    return False


def _dimensions(shapes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of all shapes in one dimension, for each dimension from last to first.

    A shape with fewer dimensions has size 0 in the dimensions that it lacks.
    """
    reversed_shapes = (tuple(reversed(shape)) for shape in shapes)
    return itertools.zip_longest(*reversed_shapes, fillvalue=0)


def _recorded(
    model: nn.Module, arguments: Sequence[Any], recorder: _Recorder
) -> Sequence[ReferenceOperation]:
    with torch.no_grad(), recorder:
        model(*arguments)
    return recorder.operations


def on_meta(problem: Problem, configuration: Configuration) -> tuple[nn.Module, list[Any]]:
    """Build a `Model`, and empty arguments of its forward, on the default device.

    The caller makes meta the default device, so nothing is allocated.
    """
    inputs = [
        torch.empty(shape, dtype=getattr(torch, dtype))
        for shape, dtype in zip(configuration.input_shapes, configuration.input_dtypes, strict=True)
    ]
    return problem.build(configuration.arguments), problem.forward_arguments(inputs)


# Calls with other sizes repeat most of the shapes of earlier calls, so they share what is known of
# these: the shapes of results, and the operations.
_SHAPES: dict[Hashable, Any] = {}
_OPERATIONS: dict[Hashable, ReferenceOperation] = {}
_MOST_KNOWN = 1 << 15


def _shapes() -> dict[Hashable, Any]:
    """Return the shared cache of result shapes.

    This cache and the cache of operations are each emptied when they exceed 32,768 entries.
    """
    for cache in (_SHAPES, _OPERATIONS):
        if len(cache) > _MOST_KNOWN:
            cache.clear()
    return _SHAPES


class _Recorder(WatchingShapes):
    def __init__(self, most: float = math.inf, most_work: float = math.inf) -> None:
        super().__init__(_shapes())
        self.operations: list[ReferenceOperation] = []
        self.work = 0
        self._most = most
        self._most_work = most_work

    def called(self, call: OperatorCall) -> None:
        operation = _OPERATIONS.get(call.key) if call.key else None
        if operation is None:
            operation = _operation(call)
            if call.key:
                _OPERATIONS[call.key] = operation
        self.operations.append(operation)
        self.work += operation.made + operation.products
        if len(self.operations) > self._most:
            raise TooManyError
        if self.work > self._most_work:
            raise TooLargeError


def _operation(call: OperatorCall) -> ReferenceOperation:
    made = _sizes(call.result)
    count = flop_registry.get(call.func.overloadpacket)
    flop = count(*call.args, **call.kwargs, out_val=call.result) if count else 0
    return ReferenceOperation(
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


def _met(call: OperatorCall) -> tuple[tuple[int, ...], ...]:
    if torch.Tag.pointwise not in call.func.tags:
        return ()
    shapes = tuple(tuple(x.shape) for x in tree_leaves(call.args) if isinstance(x, Tensor))
    return shapes if len(shapes) > 1 else ()


def _sizes(values: object) -> list[int]:
    return [each.numel() for each in tree_leaves(values) if isinstance(each, Tensor)]
