"""A `Model` that was built for one configuration, as a function of its weights and inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor
from torch.fx import GraphModule

from harness.problems.configuration import Configuration
from harness.problems.problem import Problem
from harness.problems.rounding.propagate import trace


class ModelInstance:
    """As `bounds.Instance`."""

    def __init__(self, problem: Problem, configuration: Configuration) -> None:
        self._problem = problem
        self._arguments = configuration.arguments
        self._model = problem.build(configuration.arguments)

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Give its output with every floating-point number converted to `dtype`.

        Raises:
            ValueError: The reference gives something other than one tensor.
            Exception: Whatever it raises itself.
        """
        model = self._model.to(dtype=dtype)
        model.load_state_dict({**model.state_dict(), **weights})
        self._model.to(device=inputs[0].device, dtype=dtype)
        with torch.no_grad():
            # Copies, since a reference may write to its inputs.
            copies = [_as(x, dtype) for x in inputs]
            output = self._model(*self._problem.forward_arguments(copies))
        if not isinstance(output, Tensor):
            path, given = self._problem.path, type(output).__name__
            raise ValueError(f"{path}: forward gives {given}; only one tensor is supported")
        return output

    def traced(
        self, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> tuple[GraphModule, list[Tensor]]:
        """Give it as a graph of torch's core operators, and what the graph is called with."""
        device = inputs[0].device
        model = self._model.to(device=device, dtype=torch.float64)
        state = {**model.state_dict(), **weights}
        tensors = [_as(x, torch.float64).to(device) for x in (*state.values(), *inputs)]

        def forward(*given: Tensor) -> Tensor:
            named = dict(zip(state, given, strict=False))
            arguments = self._problem.forward_arguments(given[len(named) :])
            output = torch.func.functional_call(model, named, tuple(arguments))
            if not isinstance(output, Tensor):
                raise TypeError("forward gives no tensor")
            return output

        key = _Key(
            json.dumps(dict(self._arguments), sort_keys=True),
            tuple((x.shape, x.dtype) for x in tensors),
            device,
            forward,
            tensors,
        )
        return _graph(self._problem, key), tensors


@dataclass(frozen=True)
class _Key:
    """What a graph depends on, and what it is made from."""

    arguments: str
    kinds: tuple[tuple[torch.Size, torch.dtype], ...]
    device: torch.device
    forward: Callable[..., Tensor] = field(compare=False)
    tensors: Sequence[Tensor] = field(compare=False)


@lru_cache(maxsize=1)
def _graph(problem: Problem, key: _Key) -> GraphModule:
    """The graph of one configuration, which all its runs have in common."""
    del problem
    return trace(key.forward, key.tensors)


def _as(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype, copy=True) if value.is_floating_point() else value.clone()
