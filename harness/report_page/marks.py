"""Charts of times as the page's script takes them: one form for all pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.speed.result import Timing, milliseconds

_DIGITS = 5
"""Of a time: more than its interval leaves sure."""

Mark = dict[str, Any]
"""A row of a chart: whose time, of which kind, its median and 95 % interval in ms, and in words."""


def mark(name: str, timing: Timing, kind: Literal["submission", "baseline"]) -> Mark:
    """The row of one contender."""
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
    """Times on a logarithmic axis; the script puts the fastest first."""
    return {"title": title, "marks": list(marks), "floor": short(floor_ms, _DIGITS)}


def short(number: float, digits: int = 3) -> float:
    """A number with as many digits as a drawing shows."""
    return float(f"{number:.{digits}g}")
