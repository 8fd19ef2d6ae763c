"""Some cases instead of all of a grid: `harness check --case`."""

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
    """A submission, a problem that it fits, and the cases to run."""

    submission: Submission
    problem: Problem
    cases: tuple[Case, ...]


def narrowed(
    pairs: Sequence[Selected], ids: Iterable[str], grid: Grid, seed: int
) -> list[Selected]:
    """Keep to some cases; a pair that has none of them is left out.

    What no grid has may be what a search has found: its id says all of its sizes.

    Args:
        pairs: With all of their cases.
        ids: Those to keep.
        grid: What the cases are of.
        seed: From which their values are drawn.

    Raises:
        UsageError: No pair has a case; names those that are called alike.
    """
    wanted = frozenset(ids)
    known = {case.id for pair in pairs for case in pair.cases}
    kept = [
        replace(
            pair,
            cases=(
                *(case for case in pair.cases if case.id in wanted),
                *_called(pair, wanted - known, seed),
            ),
        )
        for pair in pairs
    ]
    unknown = sorted(wanted - known - {case.id for pair in kept for case in pair.cases})
    if unknown and known:
        near = difflib.get_close_matches(unknown[0], sorted(known), _NEAR, cutoff=0)
        raise UsageError(
            f"--case {unknown[0]}: no such case in grid {grid}; the nearest are {', '.join(near)}"
        )
    return [pair for pair in kept if pair.cases]


def _called(pair: Selected, names: Iterable[str], seed: int) -> Iterator[Case]:
    for name in sorted(names):
        case = case_called(pair.problem, pair.submission, name, seed)
        if case:
            yield case
