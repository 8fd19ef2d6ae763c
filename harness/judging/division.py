"""Division of a submission's work between torch and its own kernels, from case to case.

The problem's own configuration decides which of the reference's operators may be left to torch.
Sizes change the amount of an operator's work, but not this choice. If torch does more in another
case, the submission falls back to torch there.
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
        by_torch: Number of calls of each kind of operator that torch ran for the submission.
        in_reference: Number of calls of each kind of operator in the reference.
        has_kernels: True if every call launched kernels.
        is_whole: True if the reference forms products, and torch formed at least as many.
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
        """Return whether torch does no more in these calls than in the own configuration.

        `own` is the division in the problem's own configuration. Torch may run an operator more
        often if the reference calls it more often, by the same factor. The result is False if the
        reference has one operator only, or if a call launched no kernel.
        """
        if not own.is_of_several or not self.has_kernels or (self.is_whole and not own.is_whole):
            return False
        return all(count <= self._most(kind, own) for kind, count in self.by_torch.items())

    def _most(self, kind: str, own: Division) -> int:
        """Return how often torch may run a kind of operator, given the own configuration."""
        now, then = self.in_reference.get(kind, 0), own.in_reference.get(kind, 0)
        factor = now / then if then else _SLACK * self._size / max(own._size, 1)
        return math.ceil(own.by_torch.get(kind, 0) * max(factor, 1.0))

    @property
    def _size(self) -> int:
        return sum(self.in_reference.values())
