"""Replacements for torch functions that read the numbers in a tensor.

torch's own functions check values of their arguments first, such as whether all classes are in
range. A trace cannot contain such a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return a one-hot encoding, made by comparing each number with every class.

    If `num_classes` is not given, torch's own function is called.
    """
    if num_classes < 0:
        return functional.one_hot(tensor, num_classes)
    return (tensor[..., None] == torch.arange(num_classes, device=tensor.device)).long()


def _fill_diagonal(matrix: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Fill a matrix's diagonal in place through a mask.

    If the diagonal has to wrap, torch's own function is called.
    """
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
    """A torch function mode that calls the replacements in this module in place of torch's own."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the replacement of a torch function, or the function itself if there is none."""
        del types
        called: Callable[..., Any] = _OTHERWISE.get(func, func)
        return called(*args, **(kwargs or {}))
