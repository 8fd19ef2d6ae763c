"""Known mistakes in kernels, each as a change of the correct computation.

Changes can be combined, as several mistakes in one kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor


class Computation(Protocol):
    """A kernel's computation of one output, in a form that mistakes can change.

    All tensors are float64 on the CPU. The output of `absolute()`, which sums the absolute values
    of all terms, gives a bound on the rounding errors.
    """

    @property
    def terms(self) -> float:
        """The largest number of terms in the sum of one output element."""

    @property
    def scale(self) -> float:
        """An upper bound on the sum of an output's absolute terms, with or without a mistake."""

    @property
    def work(self) -> int:
        """Approximate number of multiply-adds in the computation."""

    def output(self) -> Tensor:
        """Compute and return the whole output."""

    def sample(self) -> tuple[Tensor, Tensor]:
        """Return the output at some indices of dimension 1, and these indices.

        Computing a sample takes less time than computing the whole output.
        """

    def absolute(self) -> Self:
        """Return the same computation with the absolute values of all terms."""

    def parts(self) -> Mapping[str, Tensor]:
        """Return boolean masks of parts of the output that kernels treat separately.

        The keys describe the parts. The masks broadcast to the output's shape.
        """


C = TypeVar("C", bound=Computation)


@dataclass(frozen=True)
class Mistake(Generic[C]):
    """A known mistake in kernels, as a change of the correct computation.

    Attributes:
        name: Short name for reports.
        advice: What the kernel does wrong and where to look, in one sentence.
        change: Function from the correct computation to the one with the mistake.
        comes_alone: True if the mistake is tried only by itself, not combined with others.
    """

    name: str
    advice: str
    change: Callable[[C], C]
    comes_alone: bool = False

    def compute(self, right: C) -> Tensor:
        """Return the output of a kernel with this mistake.

        Args:
            right: The correct computation.
        """
        return self.change(right).output()
