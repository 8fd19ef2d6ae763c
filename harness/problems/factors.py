"""Operands of an output whose elements are sums of products."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Factor:
    """One of the two operands of a reference that is linear in each of them.

    Attributes:
        name: Name of the operand in reports.
        values: Its numbers; float32, of any shape.
        image: Maps other values of this operand to the output they give with the other operand
            unchanged; float64.
        adjoint: The adjoint of `image`. It maps errors of the output to a tensor of the values'
            shape: for each value, the sum of the errors times the value's coefficients; float64.
    """

    name: str
    values: Tensor
    image: Callable[[Tensor], Tensor]
    adjoint: Callable[[Tensor], Tensor]
