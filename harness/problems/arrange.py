"""Tensors that lie in memory otherwise than contiguous ones do."""

from __future__ import annotations

from torch import Tensor

from harness.problems.runs import Arrangement


def arrange(value: Tensor, arrangement: Arrangement) -> Tensor:
    """Give the same values as a tensor that lies otherwise.

    Args:
        value: Any tensor; for `expanded` all of its rows are alike.
        arrangement: How it shall lie. What has too few dimensions for that stays as it is.
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
