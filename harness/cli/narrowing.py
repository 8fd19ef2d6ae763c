"""Some cases instead of all of a grid: `harness check --case`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.problems.discovery import Submission
from harness.problems.grid import Case, Grid
from harness.problems.problem import Problem
from harness.system.errors import UsageError

_NEAR = 3


@dataclass(frozen=True)
class Selected:
    """A submission, a problem that it fits, and the cases to run."""

    submission: Submission
    problem: Problem
    cases: tuple[Case, ...]


def narrowed(pairs: Sequence[Selected], ids: Iterable[str], grid: Grid) -> list[Selected]:
    """Keep to some cases; a pair that has none of them is left out.

    Raises:
        UsageError: No pair has a case; names those that are called alike.
    """
    wanted = frozenset(ids)
    known = {case.id for pair in pairs for case in pair.cases}
    unknown = sorted(wanted - known)
    if unknown and known:
        near = difflib.get_close_matches(unknown[0], sorted(known), _NEAR, cutoff=0)
        raise UsageError(
            f"--case {unknown[0]}: no such case in grid {grid}; the nearest are {', '.join(near)}"
        )
    kept = (
        replace(pair, cases=tuple(case for case in pair.cases if case.id in wanted))
        for pair in pairs
    )
    return [pair for pair in kept if pair.cases]
