"""Some cases instead of all of a grid: `harness check --case`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.problems.discovery import Submission
from harness.problems.grid import Grid, cases_for
from harness.problems.problem import Problem
from harness.system.device import Device
from harness.system.errors import UsageError

_NEAR = 3


@dataclass(frozen=True)
class Selected:
    """A submission and a problem that it fits.

    Attributes:
        submission: The one.
        problem: The other.
        only: Ids of the cases to run; None for all.
    """

    submission: Submission
    problem: Problem
    only: frozenset[str] | None = None


def narrowed(
    pairs: Sequence[Selected], ids: Iterable[str], grid: Grid, device: Device
) -> list[Selected]:
    """Keep to some cases; a pair whose grid has none of them is left out.

    Raises:
        UsageError: No grid has a case; names those that are called alike.
    """
    wanted = frozenset(ids)
    grids = [
        frozenset(case.id for case in cases_for(pair.problem, pair.submission, grid, device))
        for pair in pairs
    ]
    known = frozenset[str]().union(*grids)
    unknown = sorted(wanted - known)
    if unknown and known:
        near = difflib.get_close_matches(unknown[0], sorted(known), _NEAR, cutoff=0)
        raise UsageError(
            f"--case {unknown[0]}: no such case in grid {grid}; the nearest are {', '.join(near)}"
        )
    return [
        replace(pair, only=wanted & has)
        for pair, has in zip(pairs, grids, strict=True)
        if wanted & has
    ]
