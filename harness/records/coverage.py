"""Which lines of a submission's device code ran in its cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from harness.system.numbering import numbered

_MOST_RANGES = 12
_DECIDES = re.compile(r"\b(?:if|for|while|switch)\b|\?|&&|\|\|")


@dataclass(frozen=True)
class Branch:
    """A branch of device code, and which ways threads have gone there.

    Attributes:
        line: Of the submission's file.
        jumped: Whether some thread went on at the branch's target. Which way that is of the
            source's condition, the compiler decides.
        stayed: Whether some thread went on behind the branch.
    """

    line: int
    jumped: bool
    stayed: bool


@dataclass(frozen=True)
class Coverage:
    """Of the lines of a submission's file that the compiler made instructions from.

    Attributes:
        reached: Lines that ran in some case.
        missed: Lines that ran in none.
        unset: Lines that may read a variable which nothing has set. A right kernel has some where
            that never comes to pass.
        branches: Those of kernels that ran, a line's in their order. Some are the compiler's own,
            such as those of a division or of an unrolled loop.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...] = ()
    branches: tuple[Branch, ...] = ()

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
        return Coverage(
            tuple(sorted(reached)),
            tuple(sorted(missed)),
            tuple(sorted(unset)),
            _joined(self.branches, other.branches),
        )

    def one_way(self, source: str) -> str:
        r"""Lines of the source that decide something, and have only ever decided it one way.

        A line's branches count together, since an unrolled loop has several of each; and the
        compiler's own, such as those of a division, are on lines that decide nothing.

        >>> ways = Branch(1, True, True), Branch(2, False, True), Branch(3, False, True)
        >>> Coverage((), (), (), ways).one_way("if (a)\nif (b)\nx / y")
        '2'
        """
        lines = source.splitlines()
        by_line: dict[int, list[Branch]] = {}
        for branch in self.branches:
            by_line.setdefault(branch.line, []).append(branch)
        found = [
            line
            for line, branches in sorted(by_line.items())
            if any(b.jumped for b in branches) != any(b.stayed for b in branches)
            and line <= len(lines)
            and _DECIDES.search(lines[line - 1])
        ]
        return _shown([str(line) for line in found])

    def words(self) -> str:
        """The lines that never ran, as a person reads them.

        >>> Coverage((1, 2, 9), (4, 5, 6, 8, 11)).words()
        '4-8, 11'
        """
        known = sorted({*self.reached, *self.missed})
        ranges = list(_ranges(known, self.missed))
        shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
        return _shown(shown)


def _shown(places: Sequence[str]) -> str:
    more = len(places) - _MOST_RANGES
    return ", ".join([*places[:_MOST_RANGES], *([f"and {more} more"] if more > 0 else [])])


def _joined(one: Iterable[Branch], other: Iterable[Branch]) -> tuple[Branch, ...]:
    """Where either has gone; a branch is known by its line and its place among that line's."""
    ways: dict[tuple[int, int], Branch] = {}
    for branches in (one, other):
        for place, branch in numbered(branches, attrgetter("line")):
            known = ways.get(place, branch)
            jumped, stayed = known.jumped or branch.jumped, known.stayed or branch.stayed
            ways[place] = Branch(branch.line, jumped, stayed)
    return tuple(ways[place] for place in sorted(ways))


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
                *_branch_lines(of.branches),
                f"LF:{len(of.reached) + len(of.missed)}",
                f"LH:{len(of.reached)}",
                "end_of_record\n",
            )
        )
        for name, path, of in coverages
    )


def _branch_lines(branches: Sequence[Branch]) -> Iterator[str]:
    """A line for each way of each branch; `-` for a branch to which no thread came."""
    for (line, number), branch in numbered(branches, attrgetter("line")):
        came = branch.jumped or branch.stayed
        for way, went in enumerate((branch.jumped, branch.stayed)):
            yield f"BRDA:{line},{number},{way},{int(went) if came else '-'}"
    if branches:
        yield f"BRF:{2 * len(branches)}"
        yield f"BRH:{sum(branch.jumped + branch.stayed for branch in branches)}"


def _all(coverage: Coverage) -> list[int]:
    return sorted((*coverage.reached, *coverage.missed))


def _name(text: str) -> str:
    """A test's name has letters, digits and underscores alone."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
