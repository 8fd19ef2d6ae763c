"""A `Model` built for one configuration, as a function of its weights and inputs."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from harness.problems.bounds import Traced
from harness.problems.configuration import Configuration
from harness.problems.problem import Problem
from harness.problems.rounding.propagate import trace


class ModelInstance:
    """The implementation of `bounds.Instance` that calls the reference's own `Model`."""

    def __init__(self, problem: Problem, configuration: Configuration | Problem) -> None:
        self._problem = problem
        self._arguments = configuration.arguments
        self._model = problem.build(configuration.arguments)
        self._kept = [*_kept_tensors(self._model)]

    @property
    def output_dtype(self) -> torch.dtype:
        """The dtype that a submission's output must have if the output is floating point."""
        return self._problem.output_dtype

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return the output, computed with all floating-point weights and inputs in `dtype`.

        Raises:
            ValueError: The reference returns something other than one tensor.
            Exception: An exception of the reference.
        """
        model = self._model.to(dtype=dtype)
        model.load_state_dict({**model.state_dict(), **weights})
        device = _device_of(weights, inputs)
        self._model.to(device=device, dtype=dtype)
        self._keep(_as(each.value, dtype).to(device) for each in self._kept)
        with torch.no_grad():
            # A reference may write to its inputs, so it gets copies.
            copies = [_as(x, dtype) for x in inputs]
            output = self._model(*self._problem.forward_arguments(copies))
        if not isinstance(output, Tensor):
            path, given = self._problem.path, type(output).__name__
            raise ValueError(f"{path}: forward returns {given}; only one tensor is supported")
        return output

    def traced(self, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Traced:
        """Trace a call into a graph of torch's core operators; return the graph and its arguments.

        Raises:
            harness.problems.rounding.tracked.NoRuleError: The call cannot be traced.
        """
        device = _device_of(weights, inputs)
        model = self._model.to(device=device, dtype=torch.float64)
        state = {**model.state_dict(), **weights}
        kept = [each.value for each in self._kept]
        tensors = [_as(x, torch.float64).to(device) for x in (*state.values(), *kept, *inputs)]

        # Everything that may vary between runs is an argument of the graph, not a constant in it.
        def forward(*given: Tensor) -> Tensor:
            named = dict(zip(state, given, strict=False))
            self._keep(given[len(named) :][: len(kept)])
            rest = self._problem.forward_arguments(given[len(named) + len(kept) :])
            output = torch.func.functional_call(model, named, tuple(rest))
            if not isinstance(output, Tensor):
                raise TypeError("forward does not return a tensor")
            return output

        # A graph depends on everything except the tensors' values, so runs of one configuration
        # share it.
        kinds = tuple((x.shape, x.dtype) for x in tensors)
        arguments = json.dumps(dict(self._arguments), sort_keys=True)
        key = (self._problem, arguments, kinds, device)
        graph = _GRAPHS.get(key)
        if graph is None:
            graph = trace(forward, tensors)
            if len(_GRAPHS) >= _MOST_GRAPHS:
                _GRAPHS.clear()
            _GRAPHS[key] = graph
        kept_names = [each.name for each in self._kept]
        names = [*state, *kept_names, *self._problem.input_names[: len(inputs)]]
        return Traced(graph, tensors, names)

    def _keep(self, values: Iterable[Tensor]) -> None:
        """Set the model's plain tensor attributes (neither parameters nor buffers) to `values`."""
        for each, value in zip(self._kept, values, strict=True):
            setattr(each.module, each.name, value)


@dataclass(frozen=True)
class _Kept:
    """A tensor that a module holds as a plain attribute, not as a parameter or buffer.

    Attributes:
        module: The module.
        name: Name of the attribute.
        value: The tensor's value after construction.
    """

    module: nn.Module
    name: str
    value: Tensor


def _kept_tensors(model: nn.Module) -> Iterator[_Kept]:
    # An example is a hidden state, which a call of a recurrent model may change. Neither Module.to
    # nor load_state_dict handles such a tensor.
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                yield _Kept(module, name, value.detach().clone())


# Graphs of the last configurations, one for each of their outputs.
_GRAPHS: dict[Hashable, GraphModule] = {}
_MOST_GRAPHS = 8


def _device_of(weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> torch.device:
    """Return the device of the first input or weight; the CPU if there are none."""
    return next((each.device for each in (*inputs, *weights.values())), torch.device("cpu"))


def _as(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype, copy=True) if value.is_floating_point() else value.clone()
