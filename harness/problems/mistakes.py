"""Known mistakes in kernels, each as a change of the correct computation.

Changes can be combined, as several mistakes in one kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor


class Computation(Protocol):
    """The computation of a kernel in one run, in a form that mistakes can change.

    It is in float64 on the CPU. The output of `absolute()`, which has the absolute values of all
    terms, bounds the rounding errors.
    """

    @property
    def terms(self) -> float:
        """The largest number of terms in the sum of one output element."""

    @property
    def scale(self) -> float:
        """An upper bound on any sum of that many terms, whatever a mistake changes."""

    @property
    def work(self) -> int:
        """Approximate number of multiply-adds."""

    def output(self) -> Tensor:
        """Return the output."""

    def sample(self) -> tuple[Tensor, Tensor]:
        """Return the output at some indices of dimension 1, and these indices.

        This takes less time than the whole output.
        """

    def absolute(self) -> Self:
        """Return the computation whose sums are those of the absolute values."""

    def parts(self) -> Mapping[str, Tensor]:
        """Return masks of parts of the output that kernels treat separately, by their description.

        The masks broadcast to the output's shape.
        """


C = TypeVar("C", bound=Computation)


@dataclass(frozen=True)
class Mistake(Generic[C]):
    """A known mistake.

    Attributes:
        name: Short name for reports.
        advice: What the kernel does wrong and where to look, in one sentence.
        change: Returns the changed computation.
        comes_alone: True if the mistake is tried only by itself, not combined with others.
    """

    name: str
    advice: str
    change: Callable[[C], C]
    comes_alone: bool = False

    def compute(self, right: C) -> Tensor:
        """Return the output of a kernel with this mistake."""
        return self.change(right).output()
