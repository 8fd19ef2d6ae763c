"""Recognition of references that compute each element by itself, or only select among inputs.

In a sum, a large number hides the small ones. So inputs of a sum have one magnitude each. Where no
output depends on two inputs, or where outputs are inputs, numbers of all magnitudes can stand in
one input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from harness.problems.configuration import Configuration
from harness.problems.operations import ReferenceOperation, operations_of
from harness.problems.problem import Problem

Separate = Literal["elementwise", "selecting"]
"""How a reference keeps numbers apart.

- `selecting`: each output is an input, its negative or absolute value, or a constant.
- `elementwise`: each output depends on the elements at its own place alone.
"""

_SELECTING = """
    abs amax amin clamp clamp_max clamp_min clone flip hardtanh index_select max
    max_pool2d_with_indices max_pool3d_with_indices maximum min minimum neg pixel_shuffle
    pixel_unshuffle relu repeat roll threshold
"""
_SELECTS = frozenset(_SELECTING.split())


def separate(problem: Problem, configuration: Configuration) -> Separate | None:
    """Return how a reference keeps numbers apart; None if it does not, or if it is unknown."""
    try:
        operations = operations_of(problem, configuration)
    except Exception:  # a reference may need values to know what it does
        return None
    works = [each for each in operations if not each.is_view]
    if works and all(_own_name(each.name) in _SELECTS for each in works):
        return "selecting"
    return "elementwise" if works and _are_elementwise(works) else None


def _are_elementwise(works: Sequence[ReferenceOperation]) -> bool:
    """Return whether torch marks all these operators as elementwise, with a result of that size."""
    return all(_is_marked(each.name) and each.made >= each.elements for each in works)


def _is_marked(name: str) -> bool:
    packet = getattr(torch.ops.aten, name.rpartition("::")[2], None)
    overloads = packet.overloads() if packet else []
    return any(torch.Tag.pointwise in getattr(packet, each).tags for each in overloads)


def _own_name(name: str) -> str:
    """Return an operator's name without namespace and outer underscores, such as `relu`."""
    return name.rpartition("::")[2].strip("_")
