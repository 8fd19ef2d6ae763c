"""Charts of times, as data for the script that draws them on all pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.speed.result import Timing, milliseconds

_DIGITS = 5
"""Significant digits of a time; more than its confidence interval supports."""

Mark = dict[str, Any]
"""A row of a chart: name and kind of the contender, and its median and 95 % interval in ms."""


def mark(name: str, timing: Timing, kind: Literal["submission", "baseline"]) -> Mark:
    """Return a chart's row for one submission or baseline: its median time and 95 % interval."""
    low, high = timing.interval_ms
    return {
        "name": name,
        "kind": kind,
        "text": milliseconds(timing),
        "value": short(timing.median_ms, _DIGITS),
        "low": short(low, _DIGITS),
        "high": short(high, _DIGITS),
    }


def chart(title: str, marks: Sequence[Mark], floor_ms: float) -> dict[str, Any]:
    """Return the data of a chart of times, with the least possible time as its floor.

    The page's script draws the chart on a logarithmic axis, and sorts the rows, the fastest first.
    """
    return {"title": title, "marks": list(marks), "floor": short(floor_ms, _DIGITS)}


def short(number: float, digits: int = 3) -> float:
    """Return a number rounded to `digits` significant digits."""
    return float(f"{number:.{digits}g}")
