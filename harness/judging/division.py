"""Division of a submission's work between torch and its own kernels, from call to call.

Sizes decide how much work an operator is, but not which operators the kernels stand for. So the
problem's own configuration decides that once. Other cases divide the work alike, or fall back to
torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

# Torch's operators that the reference does not call may be so many times as frequent, beyond what
# the number of the reference's operators explains. A loop has steps before and after it.
_SLACK = 1.25


@dataclass(frozen=True)
class Division:
    """The work of torch and of the submission's kernels in some calls of one case.

    Attributes:
        by_torch: Number of torch's calls of each kind of operator.
        in_reference: Number of the reference's calls of each kind.
        has_kernels: True if every call launched kernels.
        is_whole: True if torch formed all products of a reference that has some.
        is_of_several: True if the reference has several operators, of which some may be left to
            torch.
    """

    by_torch: Mapping[str, int] = field(default_factory=dict)
    in_reference: Mapping[str, int] = field(default_factory=dict)
    has_kernels: bool = True
    is_whole: bool = False
    is_of_several: bool = False

    def joined(self, other: Division | None) -> Division:
        """Return the division of two calls of one case."""
        if other is None:
            return self
        return Division(
            Counter(self.by_torch) | Counter(other.by_torch),
            self.in_reference,
            self.has_kernels and other.has_kernels,
            self.is_whole or other.is_whole,
            self.is_of_several or other.is_of_several,
        )

    def is_like(self, own: Division) -> bool:
        """Return whether torch did no other operators than in the own configuration.

        More of the same are alike only if the reference has as many times more of them. A reference
        of one operator has nothing to divide.
        """
        if not own.is_of_several or not self.has_kernels or (self.is_whole and not own.is_whole):
            return False
        return all(count <= self._most(kind, own) for kind, count in self.by_torch.items())

    def _most(self, kind: str, own: Division) -> int:
        """Return how often torch may run a kind of operator, by the own configuration."""
        now, then = self.in_reference.get(kind, 0), own.in_reference.get(kind, 0)
        factor = now / then if then else _SLACK * self._size / max(own._size, 1)
        return math.ceil(own.by_torch.get(kind, 0) * max(factor, 1.0))

    @property
    def _size(self) -> int:
        return sum(self.in_reference.values())
