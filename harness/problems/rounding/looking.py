"""Functions of torch that look at the numbers which they are given, as others that do not.

They see that classes are in their range or that a matrix may be filled, which cannot be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        return functional.one_hot(tensor, num_classes)
    return (tensor[..., None] == torch.arange(num_classes, device=tensor.device)).long()


def _fill_diagonal(matrix: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    rows, columns = matrix.shape
    if wrap and rows > columns:
        return matrix.fill_diagonal_(fill_value, wrap)
    places = torch.eye(rows, columns, dtype=torch.bool, device=matrix.device)
    return matrix.masked_fill_(places, fill_value)


_OTHERWISE: Mapping[Any, Callable[..., Tensor]] = {
    functional.one_hot: _one_hot,
    Tensor.fill_diagonal_: _fill_diagonal,
}


class WithoutLooking(TorchFunctionMode):
    """A mode in which they are put in their places."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call what stands for a function, or the function itself."""
        del types
        called: Callable[..., Any] = _OTHERWISE.get(func, func)
        return called(*args, **(kwargs or {}))
