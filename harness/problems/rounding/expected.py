"""What an output must be, by the bounds that are carried through a traced reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property

import torch
from torch import Tensor
from torch.fx import GraphModule

from harness.problems.bounds import Arithmetic
from harness.problems.rounding.propagate import propagate
from harness.problems.rounding.tracked import NoRuleError
from harness.problems.rounding.trials import deviation

# What float64 loses beside float32 in the bounds themselves.
_SLACK = 1.0 + 2.0**-20
# That of the tightest class, which is asked for first; if it were not, it would only take longer.
_SINGLE = Arithmetic(0.0, 0, 2.0**-24, 12, 2.0**-126)


class Propagated:
    """As `bounds.Expected`; rigorous.

    Where a class would decide by rounding what no rule is known of, such as which element is
    picked, nothing more is allowed in it than in the tightest.

    Args:
        graph: The reference, traced (`propagate.trace`).
        tensors: Its weights and inputs, floating-point numbers in float64.
        dtype: What an output must be that is floating-point numbers.

    Raises:
        NoRuleError: An operator of it has no rule.
    """

    estimated = ""

    def __init__(self, graph: GraphModule, tensors: Sequence[Tensor], dtype: torch.dtype) -> None:
        self._graph = graph
        self._tensors = tensors
        output = propagate(graph, tensors, _SINGLE)
        self._bounds = {_key(_SINGLE): _known(output.bound)}
        self.value = output.value
        self.dtype = dtype if self.value.is_floating_point() else self.value.dtype

    def is_of(self, value: Tensor) -> bool:
        """Whether what was traced is the reference itself, which gives this in float64.

        Some of what torch decomposes an operator into is another function.
        """
        if value.shape != self.value.shape:
            return False
        apart = (self.value.double() - value.double()).abs()
        allowed = self.bound(_SINGLE) + 1e-9 * value.double().abs()
        is_near = (apart <= allowed) | (self.value == value)
        return bool((is_near | allowed.isinf() | (self.value.isnan() & value.isnan())).all())

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """As `bounds.Expected`."""
        key = _key(arithmetic)
        if key not in self._bounds:
            try:
                output = propagate(self._graph, self._tensors, arithmetic)
            except NoRuleError:
                self._bounds[key] = self._bounds[_key(_SINGLE)]
            else:
                self._bounds[key] = _known(output.bound)
        return self._bounds[key] * _SLACK

    @cached_property
    def tried(self) -> Tensor | None:
        """As `bounds.Expected`; None of integers, which are right or wrong."""
        if not self.value.is_floating_point():
            return None
        try:
            return deviation(self._graph, self._tensors, self.value)
        except RuntimeError:  # what an operator says of numbers that it does not take
            return None


def _known(bound: Tensor) -> Tensor:
    """Where a bound came to nothing, nothing is known."""
    return torch.where(bound.isnan(), torch.inf, bound)


def _key(arithmetic: Arithmetic) -> tuple[float, ...]:
    return tuple(getattr(arithmetic, each.name) for each in fields(Arithmetic))
