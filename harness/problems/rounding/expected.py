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

    In a less precise class than fp32, rounding may decide something that has no rule, such as which
    element a lookup returns. The bounds of that class are then those of fp32.

    Args:
        graph: The traced reference (`propagate.trace`).
        tensors: The graph's arguments: weights and inputs; floating-point numbers are float64.
        dtype: The dtype of a correct output that is floating point.

    Attributes:
        value: The exact output, but for float64's rounding.
        dtype: The dtype of a correct output.
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
        """Return whether the traced graph computes the same output as the reference.

        For some operators, torch's decomposition computes another function.

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
        """Return the largest error of each output element in an arithmetic; float64."""
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
        """The largest error of each element in trials of random rounding (`trials.deviation`).

        The result is None if the output is not floating point, or if an operator rejects the
        numbers of a trial.
        """
        if not self.value.is_floating_point():
            return None
        try:
            return deviation(self._graph, self._tensors, self.value)
        except RuntimeError:  # an operator refuses the changed numbers
            return None


def _known(bound: Tensor) -> Tensor:
    """Replace NaN in a bound by infinity: where the bound is not a number, nothing is known."""
    return torch.where(bound.isnan(), torch.inf, bound)


def _key(arithmetic: Arithmetic) -> tuple[float, ...]:
    """Return an arithmetic's numbers as a cache key, without the name of its precision class."""
    return tuple(getattr(arithmetic, each.name) for each in fields(Arithmetic))
