"""The two operands of an output whose numbers are sums of products."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Factor:
    """One of the two operands of a reference that is linear in each of them.

    Attributes:
        name: As reports say it.
        values: Its numbers, float32, of any shape.
        image: From other values, float64, to what they make of the output, with the other operand.
        adjoint: The adjoint of `image`: from errors of the output, float64, to a tensor of the
            values' shape, which has the products of the errors with what each value is in.
    """

    name: str
    values: Tensor
    image: Callable[[Tensor], Tensor]
    adjoint: Callable[[Tensor], Tensor]
