"""The selection of single cases instead of a whole grid, for `harness check --case`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.problems.discovery import Submission
from harness.problems.grid import Case, Grid, case_called
from harness.problems.problem import Problem
from harness.system.errors import UsageError

_NEAR = 3


@dataclass(frozen=True)
class Selected:
    """A submission, a problem that it fits, and the cases to run on it."""

    submission: Submission
    problem: Problem
    cases: tuple[Case, ...]


def select_cases(
    pairs: Sequence[Selected], ids: Iterable[str], grid: Grid, seed: int
) -> list[Selected]:
    """Return the pairs with only the cases of the given ids; leave out pairs without such a case.

    An id that is not in the grid may come from a search for failures. Such an id states all sizes
    of its case, so the case can be made from the id.

    Args:
        pairs: Pairs of submission and problem, each with all cases of the grid.
        ids: Ids of the cases to keep.
        grid: Name of the grid, for the error message.
        seed: Seed of the random values of a case from a search.

    Raises:
        UsageError: No pair has a case with this id; the message names the most similar ids.
    """
    wanted = frozenset(ids)
    known = {case.id for pair in pairs for case in pair.cases}
    kept = [
        replace(
            pair,
            cases=(
                *(case for case in pair.cases if case.id in wanted),
                *_searched_cases(pair, wanted - known, seed),
            ),
        )
        for pair in pairs
    ]
    unknown = sorted(wanted - known - {case.id for pair in kept for case in pair.cases})
    if unknown and known:
        near = difflib.get_close_matches(unknown[0], sorted(known), _NEAR, cutoff=0)
        raise UsageError(
            f"--case {unknown[0]}: no such case in grid {grid}; the closest names are "
            f"{', '.join(near)}"
        )
    return [pair for pair in kept if pair.cases]


def _searched_cases(pair: Selected, names: Iterable[str], seed: int) -> Iterator[Case]:
    for name in sorted(names):
        case = case_called(pair.problem, pair.submission, name, seed)
        if case:
            yield case
