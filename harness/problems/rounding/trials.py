"""Estimates of a traced function's rounding errors, by random trials.

They are used where a bound is too loose to be useful, such as after many layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

_TRIALS = 8
# The loosest errors of any format: the relative one of bfloat16, where numbers are cut off, and the
# absolute one of float16.
_ROUNDOFF, _SMALLEST = 2.0**-8, 2.0**-25
_LARGEST_HALF = 65504.0


def deviation(graph: GraphModule, tensors: Sequence[Tensor], value: Tensor) -> Tensor:
    """Return the largest error of a function's output in eight trials of random rounding.

    Each trial changes every result of an operator by at most the rounding error of bfloat16 (Monte
    Carlo arithmetic; Parker, UCLA CSD-970002, 1997). Half of the trials change each number by
    itself. The others change all numbers of a result by the same share, as truncation does.

    Args:
        graph: The graph that `propagate.trace` returned.
        tensors: The arguments of the call; floating-point numbers are float64.
        value: The exact output.

    Returns:
        Absolute errors, float64, of the output's shape. NaN where a trial gave no number, and
        everywhere if a result overflows in float16: a correct kernel may then be off by anything.
    """
    largest = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    for seed in range(_TRIALS):
        trial = _Trial(graph, seed, value.device, all_alike=bool(seed % 2))
        # The function gets copies, since it may write over its arguments.
        with torch.no_grad():
            (output,) = tree_leaves(trial.run(*(each.clone() for each in tensors)))
        if trial.overflows:
            return torch.full_like(largest, torch.nan)
        largest = torch.maximum(largest, (output.double() - value.double()).abs())
    return largest


class _Trial(Interpreter):
    """An interpreter that runs a graph in float64 and changes each result a little."""

    def __init__(
        self, graph: GraphModule, seed: int, device: torch.device, *, all_alike: bool
    ) -> None:
        super().__init__(graph)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._all_alike = all_alike
        self.overflows = False

    def run_node(self, n: Node) -> Any:
        """Run a node of the graph as torch.fx does, and change its result at random."""
        result = super().run_node(n)
        return result if n.op == "output" else tree_map(self._changed, result)

    def _changed(self, result: Any) -> Any:
        """Change a floating-point tensor by random fractions of bfloat16's rounding error."""
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        result = result.double()
        self.overflows |= bool((result.isfinite() & (result.abs() > _LARGEST_HALF)).any())
        share = result.new_empty(()) if self._all_alike else torch.empty_like(result)
        share.uniform_(-1.0, 1.0, generator=self._generator)
        return result + share * (_ROUNDOFF * result.abs() + _SMALLEST)
