"""The expected output of a run, with error bounds that are carried through a traced reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property

import torch
from torch import Tensor
from torch.fx import GraphModule

from harness.problems.bounds import SINGLE, Arithmetic
from harness.problems.rounding.propagate import propagate
from harness.problems.rounding.tracked import NoRuleError
from harness.problems.rounding.trials import deviation

# Room for the rounding of the bounds themselves, which are float64.
_SLACK = 1.0 + 2.0**-20


class Propagated:
    """A run's output with rigorous error bounds; implements `bounds.Expected`.

    A looser class may let rounding decide something that has no rule, such as which element a
    lookup returns. That class then allows no more than the tightest one.

    Args:
        graph: The traced reference (`propagate.trace`).
        tensors: Its weights and inputs; floating-point numbers are float64.
        dtype: The dtype of a right output, if that is floating-point.

    Attributes:
        value: The exact output, but for float64's rounding.
        dtype: The dtype of a right output.
        estimated: Empty, since the bounds are rigorous.

    Raises:
        NoRuleError: The graph calls an operator that has no rule.
    """

    estimated = ""

    def __init__(self, graph: GraphModule, tensors: Sequence[Tensor], dtype: torch.dtype) -> None:
        self._graph = graph
        self._tensors = tensors
        # This shows whether all operators have a rule. The class fp32 needs the same bound.
        output = propagate(graph, tensors, SINGLE)
        self._bounds = {_key(SINGLE): _known(output.bound)}
        self.value = output.value
        self.dtype = dtype if self.value.is_floating_point() else self.value.dtype

    def is_of(self, value: Tensor) -> bool:
        """Return whether the graph computes what the reference does.

        torch decomposes some operators into another function.

        Args:
            value: The reference's own output in float64.
        """
        if value.shape != self.value.shape:
            return False
        apart = (self.value.double() - value.double()).abs()
        allowed = self.bound(SINGLE) + 1e-9 * value.double().abs()
        is_near = (apart <= allowed) | (self.value == value)
        return bool((is_near | allowed.isinf() | (self.value.isnan() & value.isnan())).all())

    def bound(self, arithmetic: Arithmetic) -> Tensor:
        """Return the largest error of each output, as `bounds.Expected` does."""
        key = _key(arithmetic)
        if key not in self._bounds:
            try:
                output = propagate(self._graph, self._tensors, arithmetic)
            except NoRuleError:
                self._bounds[key] = self._bounds[_key(SINGLE)]
            else:
                self._bounds[key] = _known(output.bound)
        return self._bounds[key] * _SLACK

    @cached_property
    def tried(self) -> Tensor | None:
        """The largest error in a few trials, as in `bounds.Expected`.

        None for integers, which are right or wrong. None if an operator refuses a trial's numbers.
        """
        if not self.value.is_floating_point():
            return None
        try:
            return deviation(self._graph, self._tensors, self.value)
        except RuntimeError:  # an operator refuses the changed numbers
            return None


def _known(bound: Tensor) -> Tensor:
    """Return a bound with infinity for NaN: where the bound has no number, nothing is known."""
    return torch.where(bound.isnan(), torch.inf, bound)


def _key(arithmetic: Arithmetic) -> tuple[float, ...]:
    """Return the numbers that decide an arithmetic's bound, without a class's name."""
    return tuple(getattr(arithmetic, each.name) for each in fields(Arithmetic))
