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
        image: Function that takes new values of this operand and returns the output for them;
            float64. The other operand is fixed.
        adjoint: The adjoint of `image`: a function that takes the errors of all outputs and returns
            a tensor in the shape of `values`; float64. Each element of the result is the sum, over
            all outputs, of the error times the element's coefficient in the output.
    """

    name: str
    values: Tensor
    image: Callable[[Tensor], Tensor]
    adjoint: Callable[[Tensor], Tensor]
