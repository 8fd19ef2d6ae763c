"""Conversion of tensors to memory layouts other than the contiguous one."""

from __future__ import annotations

from torch import Tensor

from harness.problems.runs import Arrangement


def arrange(value: Tensor, arrangement: Arrangement) -> Tensor:
    """Return a tensor with the same values in another memory layout.

    Args:
        value: Any tensor; for `expanded`, all its rows must be equal.
        arrangement: The layout: `strided`, `expanded` or `offset` (`runs.Arrangement`). A tensor
            with too few dimensions for the layout is returned unchanged.
    """
    if arrangement == "strided" and value.dim() > 1:
        return value.transpose(-1, -2).contiguous().transpose(-1, -2)
    if arrangement == "expanded" and value.dim() > 0:
        return value[:1].contiguous().expand_as(value)
    if arrangement == "offset":
        longer = value.new_empty(value.numel() + 1)
        longer[1:] = value.flatten()
        return longer[1:].view(value.shape)
    return value
