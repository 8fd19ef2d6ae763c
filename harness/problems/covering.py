"""Covering arrays: few rows that contain every feasible pair or triple of parameter values."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allpairspy import AllPairs  # type: ignore[import-untyped]

Levels = Mapping[str, Sequence[Any]]
Row = dict[str, Any]
IsFeasible = Callable[[Mapping[str, Any]], bool]


def cover(levels: Levels, is_feasible: IsFeasible, strength: int) -> list[Row]:
    """Return rows that together contain every feasible combination of `strength` values.

    A row has one value for each parameter. allpairspy's greedy search makes most rows. It stops at
    the first row that adds no combination, which is too early under constraints. So the
    combinations that are still missing are packed into further rows.

    Args:
        levels: The values of each parameter; at least two parameters.
        is_feasible: Returns whether a valid row can contain the given values. For an incomplete row
            it may return True wrongly; for a complete row it must be exact.
        strength: 2 for pairs, 3 for triples.

    Returns:
        The rows; equal arguments give equal rows.
    """

    def is_row_feasible(values: Sequence[Any]) -> bool:
        return is_feasible(dict(zip(levels, values, strict=False)))

    found = AllPairs([list(values) for values in levels.values()], is_row_feasible, n=strength)
    rows = [dict(zip(levels, values, strict=True)) for values in found]
    missing = uncovered(levels, rows, strength)
    while missing:
        row = _pack(levels, is_feasible, missing)
        if row is None:
            # No valid row contains the combination, so it is infeasible.
            missing = missing[1:]
        else:
            rows.append(row)
            missing = [part for part in missing if not part.items() <= row.items()]
    return rows


def uncovered(levels: Levels, rows: Sequence[Row], strength: int) -> list[Row]:
    """Return the combinations of `strength` values that no row contains, feasible or not."""
    missing = []
    for names in itertools.combinations(levels, strength):
        held = {tuple(row[name] for name in names) for row in rows}
        for values in itertools.product(*(levels[name] for name in names)):
            if values not in held:
                missing.append(dict(zip(names, values, strict=True)))
    return missing


def complete(levels: Levels, is_feasible: IsFeasible, chosen: Mapping[str, Any]) -> Row | None:
    """Return a feasible row that contains the chosen values, or None if there is none.

    The row is found by depth-first search in the order of the levels.
    """
    if not is_feasible(chosen):
        return None
    name = next((name for name in levels if name not in chosen), None)
    if name is None:
        return dict(chosen)
    attempts = (complete(levels, is_feasible, {**chosen, name: v}) for v in levels[name])
    return next((row for row in attempts if row is not None), None)


def _pack(levels: Levels, is_feasible: IsFeasible, missing: Sequence[Row]) -> Row | None:
    """Return a row with the first missing combination and many of the other missing ones.

    A further combination is added if a feasible row with all added combinations still exists. The
    result is None if no feasible row contains the first combination.
    """
    row = complete(levels, is_feasible, missing[0])
    if row is None:
        return None
    chosen = dict(missing[0])
    for part in missing[1:]:
        agrees = all(chosen.get(name, value) == value for name, value in part.items())
        if agrees and not part.items() <= chosen.items():
            wider = complete(levels, is_feasible, {**chosen, **part})
            if wider is not None:
                chosen.update(part)
                row = wider
    return row
