"""Where the marks of a chart stand: times on a logarithmic axis, from the floor to the slowest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from harness.leaderboard.columns import milliseconds
from harness.leaderboard.standings import Board
from harness.speed.result import Timing
from harness.system.escape import one_line

_WIDTH = 860.0
_LABELS = 230.0
_VALUES = 130.0
_ROW = 24.0
_TOP = 30.0
_AXIS = 34.0
_LONGEST = 28


@dataclass(frozen=True)
class Mark:
    """One contender: its name, its time in words, and where its median and interval stand."""

    name: str
    value: str
    is_submission: bool
    x: float
    low: float
    high: float
    y: float


@dataclass(frozen=True)
class Tick:
    """A round number of milliseconds on the axis."""

    label: str
    x: float


@dataclass(frozen=True)
class Chart:
    """Everything in units of the drawing.

    Attributes:
        width, height: Of the whole.
        left, bottom: Where the rows start, and where they end.
        values: Where the times stand in words.
        floor: Where the floor is.
        floor_label: Its time.
        marks: The fastest first.
        ticks: From left to right.
    """

    width: float
    height: float
    left: float
    bottom: float
    values: float
    floor: float
    floor_label: str
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]


def chart_of(board: Board) -> Chart | None:
    """The chart of a board's times; None where nothing was measured."""
    measured = board.measured
    if measured is None:
        return None
    contenders = sorted(_contenders(board), key=lambda contender: contender[1].median_ms)
    slowest = max(timing.interval_ms[1] for _, timing, _ in contenders)
    fastest = min(measured.floor_ms, *(timing.interval_ms[0] for _, timing, _ in contenders))
    low, high = math.log10(fastest) - 0.05, math.log10(slowest) + 0.05

    def place(milliseconds_: float) -> float:
        across = (math.log10(milliseconds_) - low) / (high - low)
        return round(_LABELS + across * (_WIDTH - _LABELS - _VALUES), 1)

    marks = tuple(
        Mark(
            _label(name),
            milliseconds(timing),
            is_submission,
            place(timing.median_ms),
            place(timing.interval_ms[0]),
            place(timing.interval_ms[1]),
            _TOP + (row + 0.5) * _ROW,
        )
        for row, (name, timing, is_submission) in enumerate(contenders)
    )
    bottom = _TOP + len(marks) * _ROW
    return Chart(
        width=_WIDTH,
        height=bottom + _AXIS,
        left=_LABELS,
        bottom=bottom,
        values=_WIDTH - _VALUES + 10,
        floor=place(measured.floor_ms),
        floor_label=f"floor {measured.floor_ms:.3g} ms",
        marks=marks,
        ticks=tuple(Tick(f"{value:g}", place(value)) for value in _round_numbers(low, high)),
    )


def _label(name: str) -> str:
    """A name that fits beside the rows."""
    shown = one_line(name)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _contenders(board: Board) -> Iterator[tuple[str, Timing, bool]]:
    for standing in board.standings:
        result = standing.fresh
        if result is not None:
            yield standing.submission, result.timing, True
    if board.measured is not None:
        for name, timing in board.measured.baselines.items():
            yield name, timing, False


def _round_numbers(low: float, high: float) -> Iterator[float]:
    """1, 2 and 5 times the powers of ten between two logarithms."""
    for power in range(math.floor(low), math.ceil(high)):
        for factor in (1, 2, 5):
            if low <= math.log10(factor) + power <= high:
                yield factor * 10.0**power
