"""A `Model` that was built for one configuration, as a function of its weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from harness.problems.configuration import Configuration
from harness.problems.problem import Problem


class ModelInstance:
    """As `bounds.Instance`."""

    def __init__(self, problem: Problem, configuration: Configuration) -> None:
        self._problem = problem
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


def _as(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype, copy=True) if value.is_floating_point() else value.clone()
