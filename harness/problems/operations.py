"""Which of torch's operators a reference calls, and on how much: found on the meta device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from harness.problems.configuration import Configuration
from harness.problems.problem import Problem
from harness.problems.watching import Watching


@dataclass(frozen=True)
class Operation:
    """One call of an operator.

    Attributes:
        name: As torch has it, such as "aten::_softmax".
        made: How many numbers it made.
        elements: Of the largest tensor that it was given, or made.
        products: How many products it formed; 0 where torch does not count them.
    """

    name: str
    made: int
    elements: int
    products: int


def operations_of(problem: Problem, configuration: Configuration) -> Sequence[Operation]:
    """List the operators of one call of forward.

    Args:
        problem: The reference.
        configuration: What `Model` is built with, and the shapes of its inputs.

    Raises:
        Exception: Whatever a reference raises, such as one that needs values.
    """
    with torch.device("meta"), torch.no_grad():
        model, arguments = on_meta(problem, configuration)
        recorder = _Recorder()
        with recorder:
            model(*arguments)
    return recorder.operations


def on_meta(problem: Problem, configuration: Configuration) -> tuple[nn.Module, list[Any]]:
    """A `Model` and the arguments of its forward, where the meta device is the default one."""
    inputs = [
        torch.empty(shape, dtype=getattr(torch, dtype))
        for shape, dtype in zip(configuration.input_shapes, configuration.input_dtypes, strict=True)
    ]
    return problem.build(configuration.arguments), problem.forward_arguments(inputs)


class _Recorder(Watching):
    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = _sizes(result)
        count = flop_registry.get(func.overloadpacket)
        flop = count(*args, **(kwargs or {}), out_val=result) if count else 0
        self.operations.append(
            Operation(
                name=func.name().partition(".")[0],
                made=sum(made),
                elements=max([*made, *_sizes((args, kwargs))], default=0),
                products=int(flop) // 2,
            )
        )
        return result


def _sizes(values: object) -> list[int]:
    return [each.numel() for each in tree_leaves(values) if isinstance(each, Tensor)]
