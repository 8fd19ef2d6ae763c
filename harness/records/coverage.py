"""Coverage: the lines of a submission's device code that ran in its cases."""

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
class BranchCoverage:
    """A branch instruction of device code, and the directions in which threads have left it.

    Attributes:
        line: Line of the submission's file.
        jumped: True if some thread jumped to the branch's target. The compiler decides whether
            threads jump when the source's condition is true, or when it is false.
        stayed: True if some thread went on to the instruction after the branch.
    """

    line: int
    jumped: bool
    stayed: bool


@dataclass(frozen=True)
class Coverage:
    """The coverage of the lines of a submission's file for which the compiler made instructions.

    Attributes:
        reached: Lines that ran in some case.
        missed: Lines that ran in no case.
        unset: Lines that may read a variable which nothing has set. A correct kernel may contain
            such a line if that read never happens.
        branches: The branches of all kernels that ran; branches of one line are in program order.
            The compiler itself adds some branches, such as those of a division or an unrolled loop.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...] = ()
    branches: tuple[BranchCoverage, ...] = ()

    @property
    def share(self) -> float:
        """The fraction of lines that ran; 1 if there are no lines."""
        total = len(self.reached) + len(self.missed)
        return len(self.reached) / total if total else 1.0

    def joined(self, other: Coverage) -> Coverage:
        """Return the coverage of this run and another run of the same file together."""
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
        r"""Return the source lines whose conditions have only ever gone one way, as text.

        The branches of one line count together, since an unrolled loop has several branches
        for each condition. Branches that the compiler adds, such as those of a division, are on
        lines without a condition.

        >>> ways = [(1, True, True), (2, False, True), (3, False, True)]
        >>> branches = tuple(BranchCoverage(*each) for each in ways)
        >>> Coverage((), (), (), branches).one_way("if (a)\nif (b)\nx / y")
        '2'
        """
        lines = source.splitlines()
        by_line: dict[int, list[BranchCoverage]] = {}
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
        """Return the numbers of the lines that never ran, as text such as "4-8, 11".

        Lines without code do not interrupt a range of lines.

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


def _joined(
    one: Iterable[BranchCoverage], other: Iterable[BranchCoverage]
) -> tuple[BranchCoverage, ...]:
    """Return each branch with the directions in which threads left it in either of two runs.

    A branch is identified by its line and its position among that line's branches.
    """
    ways: dict[tuple[int, int], BranchCoverage] = {}
    for branches in (one, other):
        for place, branch in numbered(branches, attrgetter("line")):
            known = ways.get(place, branch)
            jumped, stayed = known.jumped or branch.jumped, known.stayed or branch.stayed
            ways[place] = BranchCoverage(branch.line, jumped, stayed)
    return tuple(ways[place] for place in sorted(ways))


def _ranges(known: Sequence[int], missed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last line of each range of missed lines, ignoring lines without code."""
    wanted = set(missed)
    first: int | None = None
    # The trailing 0 is not a line of any file; it ends the last range.
    for line, after in pairwise((*known, 0)):
        if line not in wanted:
            continue
        first = line if first is None else first
        if after not in wanted:
            yield first, line
            first = None


def lcov(coverages: Iterable[tuple[str, str, Coverage]]) -> str:
    """Return coverage in lcov's tracefile format (`man geninfo`).

    Editors, genhtml and Codecov read it.

    Args:
        coverages: For each check its name, the submission's file, and its coverage.
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


def _branch_lines(branches: Sequence[BranchCoverage]) -> Iterator[str]:
    """Yield one BRDA line for each direction of each branch, and the lines with the totals.

    The count is `-` for a branch that no thread reached.
    """
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
    """Return a valid lcov test name: letters, digits and underscores only."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
