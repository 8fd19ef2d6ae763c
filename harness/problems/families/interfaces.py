"""Data and protocols that the methods of a family take and return."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from harness.problems.bounds import Arithmetic
from harness.problems.configuration import Configuration


@dataclass(frozen=True)
class Need:
    """The work of one call, and the data that it reads and writes.

    Attributes:
        products: Number of multiplications whose results are summed, over all outputs.
        numbers: Number of elements in input, weight and output together.
        operands: Number of elements in input and weight.
        inputs: Number of elements in the input.
        has_terms: For each output position, whether anything besides the bias is summed; bool, in
            the shape of the output's last dimensions.
    """

    products: int
    numbers: int
    operands: int
    inputs: int
    has_terms: Tensor


class LinearMap(Protocol):
    """A `Model` with fixed weights as an affine map, y = A x + b for each row of the batch."""

    def adjoint(self, signs: Tensor) -> Tensor:
        """Return A' r for signs r, where A' is the adjoint of A.

        Args:
            signs: r, random numbers 1 and -1 in the shape of an output row; float64.

        Returns:
            A tensor in the shape of an input row; float64.
        """

    def offset(self, signs: Tensor) -> float:
        """Return <r, b>, the inner product of signs r and the offset b."""

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Return the sum of the squares of all outputs' error bounds, for one row of inputs.

        The bounds hold for inputs of at most 1 in absolute value.
        """


class Sizes(Protocol):
    """A reference whose integer constants can be given other values than those in its file."""

    @property
    def constants(self) -> Mapping[str, int]:
        """Values of the constants in the reference's file, by name."""

    @property
    def of_inputs(self) -> frozenset[str]:
        """Names of the constants that determine the inputs."""

    @property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of the constants that are 1 because a weight is broadcast along a dimension."""

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """Return the configuration for these constants; None if the reference rejects them."""

    def is_within(self, constants: Mapping[str, int], most: int) -> bool:
        """Return whether the work of a call (elements and multiplications) is at most `most`.

        The result is False if the reference does not accept these constants.
        """
