"""Charts of times, in the form that the page's script accepts on all pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.speed.result import Timing, milliseconds

_DIGITS = 5
"""Digits of a time; more than its interval supports."""

Mark = dict[str, Any]
"""A row of a chart: name and kind of the contender, and its median and 95 % interval in ms."""


def mark(name: str, timing: Timing, kind: Literal["submission", "baseline"]) -> Mark:
    """Return the row of one contender."""
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
    """Return a chart of times on a logarithmic axis; the script sorts the fastest first."""
    return {"title": title, "marks": list(marks), "floor": short(floor_ms, _DIGITS)}


def short(number: float, digits: int = 3) -> float:
    """Return a number rounded to the digits that a drawing shows."""
    return float(f"{number:.{digits}g}")
