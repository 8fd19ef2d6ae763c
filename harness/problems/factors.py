"""The two operands of a reference whose output elements are sums of products."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Factor:
    """One of the two operands of a reference that is linear in each operand.

    Attributes:
        name: Name of the operand in reports.
        values: The operand's elements; float32, of any shape.
        image: Function from new values of this operand to the output that they give with the other
            operand unchanged; float64.
        adjoint: The adjoint of `image`, a function from output errors to a tensor in the shape of
            `values`. For an element of the operand, the result is the sum, over all outputs, of
            error times the element's coefficient in that output; float64.
    """

    name: str
    values: Tensor
    image: Callable[[Tensor], Tensor]
    adjoint: Callable[[Tensor], Tensor]
