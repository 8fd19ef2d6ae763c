"""Tests of covering arrays, whose rows have all feasible pairs or triples of values."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from harness.problems.covering import complete, cover, uncovered

LEVELS = {"a": (1, 2, 3), "b": (1, 2), "c": (1, 2, 3, 4), "d": (1, 2)}


def no_more_than_six(known: Mapping[str, Any]) -> bool:
    """Return whether a row's four values have a sum of at most 6; true for incomplete rows.

    So an infeasible row can consist of pairs and triples that are feasible on their own.
    """
    return len(known) < len(LEVELS) or sum(known.values()) <= 6


def feasible_rows() -> list[dict[str, Any]]:
    """Return all rows of `LEVELS` that satisfy `no_more_than_six`."""
    rows = (dict(zip(LEVELS, v, strict=True)) for v in itertools.product(*LEVELS.values()))
    return [row for row in rows if no_more_than_six(row)]


@pytest.mark.parametrize("strength", [2, 3])
def test_covers_exactly_what_is_feasible(strength: int) -> None:
    """`cover` leaves out only the pairs or triples of values that no feasible row has."""
    rows = cover(LEVELS, no_more_than_six, strength)
    assert uncovered(LEVELS, rows, strength) == uncovered(LEVELS, feasible_rows(), strength)


@pytest.mark.parametrize("strength", [2, 3])
def test_every_row_is_feasible(strength: int) -> None:
    """Every row of `cover` satisfies the constraint and has a value for each parameter."""
    rows = cover(LEVELS, no_more_than_six, strength)
    assert all(row in feasible_rows() for row in rows)


def test_takes_fewer_rows_than_everything() -> None:
    """`cover` needs at most 16 rows for all pairs of values, out of 48 possible rows."""
    rows = cover(LEVELS, lambda _: True, 2)
    assert uncovered(LEVELS, rows, 2) == []
    assert 12 <= len(rows) <= 16


def test_uncovered_names_what_is_missing() -> None:
    """`uncovered` returns exactly the pairs of values that no row has."""
    rows: list[dict[str, Any]] = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}]
    assert uncovered({"a": (1, 2), "b": (1, 2)}, rows, 2) == [{"a": 2, "b": 2}]


def test_completion_searches_back() -> None:
    """`complete` backtracks until it finds a feasible row that contains a partial row.

    It returns None if no feasible row contains the partial row.
    """
    assert complete(LEVELS, lambda k: len(k) < 4 or k["d"] == 2, {"a": 3}) == {
        "a": 3,
        "b": 1,
        "c": 1,
        "d": 2,
    }
    assert complete(LEVELS, no_more_than_six, {"a": 3, "c": 4}) is None
