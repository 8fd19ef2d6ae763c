"""Which lines of a submission's device code ran in its cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_MOST_RANGES = 12


@dataclass(frozen=True)
class Coverage:
    """Of the lines of a submission's file that the compiler made instructions from.

    Attributes:
        reached: Lines that ran in some case.
        missed: Lines that ran in none.
        unset: Lines that may read a variable which nothing has set. A right kernel has some where
            that never comes to pass.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...] = ()

    @property
    def share(self) -> float:
        """Of the lines that ran; 1 where there are none at all."""
        total = len(self.reached) + len(self.missed)
        return len(self.reached) / total if total else 1.0

    def joined(self, other: Coverage) -> Coverage:
        """What ran in this or in another run of the same file."""
        reached = {*self.reached, *other.reached}
        missed = {*self.missed, *other.missed} - reached
        unset = {*self.unset, *other.unset}
        return Coverage(tuple(sorted(reached)), tuple(sorted(missed)), tuple(sorted(unset)))

    def words(self) -> str:
        """The lines that never ran, as a person reads them.

        >>> Coverage((1, 2, 9), (4, 5, 6, 8, 11)).words()
        '4-8, 11'
        """
        known = sorted({*self.reached, *self.missed})
        ranges = list(_ranges(known, self.missed))
        shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
        more = len(shown) - _MOST_RANGES
        return ", ".join([*shown[:_MOST_RANGES], *([f"and {more} more"] if more > 0 else [])])


def _ranges(known: Sequence[int], missed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Missed lines that follow one another, but for lines without code."""
    wanted = set(missed)
    first: int | None = None
    for line, after in pairwise((*known, 0)):
        if line not in wanted:
            continue
        first = line if first is None else first
        if after not in wanted:
            yield first, line
            first = None


def lcov(coverages: Iterable[tuple[str, str, Coverage]]) -> str:
    """Write lcov's format (`man geninfo`), which editors, genhtml and Codecov read.

    Args:
        coverages: For each check its name, the submission's file, and what ran.
    """
    return "".join(
        "\n".join(
            (
                f"TN:{_name(name)}",
                f"SF:{path}",
                *(f"DA:{line},{int(line in set(of.reached))}" for line in _all(of)),
                f"LF:{len(of.reached) + len(of.missed)}",
                f"LH:{len(of.reached)}",
                "end_of_record\n",
            )
        )
        for name, path, of in coverages
    )


def _all(coverage: Coverage) -> list[int]:
    return sorted((*coverage.reached, *coverage.missed))


def _name(text: str) -> str:
    """A test's name has letters, digits and underscores alone."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
