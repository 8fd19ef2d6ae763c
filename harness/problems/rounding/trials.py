"""How far rounding leads a traced function in a few trials, where no bound of it says anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

_TRIALS = 8
# Of bfloat16, cut off: the loosest relative error of a format. And float16's absolute one.
_ROUNDOFF, _SMALLEST = 2.0**-8, 2.0**-25
_LARGEST_HALF = 65504.0


def deviation(graph: GraphModule, tensors: Sequence[Tensor], value: Tensor) -> Tensor:
    """Give how far from its exact output rounding led a function, at most, in eight trials.

    In each, every result of an operator is changed by up to what bfloat16 may change it by (Monte
    Carlo arithmetic; Parker, UCLA CSD-970002, 1997): in half of them each number by itself, in the
    others all numbers of a result alike, as where they are cut off.

    Args:
        graph: As `propagate.trace` gives it.
        tensors: What it is called with, floating-point numbers in float64.
        value: Its exact output.

    Returns:
        Absolute errors, float64, of the output's shape. NaN where a trial gave no number, and
        everywhere if a result overflows in float16: a right kernel may be off by anything then.
    """
    largest = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    for seed in range(_TRIALS):
        trial = _Trial(graph, seed, value.device, all_alike=bool(seed % 2))
        # Copies: a function may write its results over what it is given.
        with torch.no_grad():
            (output,) = tree_leaves(trial.run(*(each.clone() for each in tensors)))
        if trial.overflows:
            return torch.full_like(largest, torch.nan)
        largest = torch.maximum(largest, (output.double() - value.double()).abs())
    return largest


class _Trial(Interpreter):
    """Runs a graph in float64, each result of which is changed a little."""

    def __init__(
        self, graph: GraphModule, seed: int, device: torch.device, *, all_alike: bool
    ) -> None:
        super().__init__(graph)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._all_alike = all_alike
        self.overflows = False

    def run_node(self, n: Node) -> Any:
        """As torch.fx's own."""
        result = super().run_node(n)
        return result if n.op == "output" else tree_map(self._changed, result)

    def _changed(self, result: Any) -> Any:
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        result = result.double()
        self.overflows |= bool((result.isfinite() & (result.abs() > _LARGEST_HALF)).any())
        share = result.new_empty(()) if self._all_alike else torch.empty_like(result)
        share.uniform_(-1.0, 1.0, generator=self._generator)
        return result + share * (_ROUNDOFF * result.abs() + _SMALLEST)
