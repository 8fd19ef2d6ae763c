"""Known mistakes in kernels, each as a change of the right computation.

Changes can be made one after the other, as people make mistakes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor


class Computation(Protocol):
    """What a kernel computes in one run, so that a mistake can change how. In float64, on the CPU.

    Its output is linear in absolute values: that of `absolute()` bounds what rounding makes of it.
    """

    @property
    def terms(self) -> float:
        """The most terms that an output sums."""

    @property
    def scale(self) -> float:
        """More than any sum of so many terms is, whatever a mistake makes of them."""

    @property
    def work(self) -> int:
        """Roughly the multiply-adds that it takes."""

    def output(self) -> Tensor:
        """Compute it."""

    def sample(self) -> tuple[Tensor, Tensor]:
        """Compute some places of dimension 1, in less time; answers them, and which they are."""

    def absolute(self) -> Self:
        """Give the one whose sums are the sums of absolute values."""

    def parts(self) -> Mapping[str, Tensor]:
        """Parts of the output that kernels treat by themselves: words for each, and where it is.

        The masks broadcast to the output's shape.
        """


C = TypeVar("C", bound=Computation)


@dataclass(frozen=True)
class Mistake(Generic[C]):
    """A known mistake.

    Attributes:
        name: Short, for reports.
        advice: What the kernel does, and where to look, in one sentence.
        change: What it makes of a computation.
        comes_alone: Whether it is looked for by itself only, and not among several mistakes.
    """

    name: str
    advice: str
    change: Callable[[C], C]
    comes_alone: bool = False

    def compute(self, right: C) -> Tensor:
        """The output that a kernel with this mistake gives."""
        return self.change(right).output()
