"""The columns of a leaderboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.leaderboard.standings import Board, Standing
from harness.records.report import AMISS
from harness.speed.result import milliseconds


@dataclass(frozen=True)
class Column:
    """One column of a leaderboard.

    Attributes:
        header: Name of the column.
        text: Function that returns a cell's text; empty if the value is unknown.
        number: Function that returns a cell's sort key; None to sort by the text.
        align: Alignment of the cells.
        meaning: Explanation of the header, shown as a tooltip.
    """

    header: str
    text: Callable[[Standing], str]
    number: Callable[[Standing], float | None] | None = None
    align: Literal["left", "right"] = "right"
    meaning: str = ""


def columns_of(board: Board) -> tuple[Column, ...]:
    """Return the columns that have at least one cell with text on this board."""
    return tuple(c for c in _COLUMNS if any(c.text(standing) for standing in board.standings))


def _rank(standing: Standing) -> str:
    return "" if standing.rank is None else str(standing.rank)


def _count(*verdicts: str) -> Callable[[Standing], int | None]:
    def count(standing: Standing) -> int | None:
        if standing.report is None:
            return None
        return sum(case.verdict in verdicts for case in standing.report.cases)

    return count


def _whole(number: Callable[[Standing], int | None]) -> Callable[[Standing], str]:
    def text(standing: Standing) -> str:
        value = number(standing)
        return "" if value is None else f"{value:,}"

    return text


def _of_result(name: str) -> Callable[[Standing], float | None]:
    return lambda standing: getattr(standing.result, name) if standing.result else None


def _median(standing: Standing) -> str:
    result = standing.result
    return milliseconds(result.timing) if result else ""


def _speedup(standing: Standing) -> str:
    result = standing.result
    if result is None:
        return ""
    low, high = result.speedup_interval
    return f"{result.speedup:.3g} ({low:.3g} to {high:.3g})"


def _baseline(standing: Standing) -> str:
    return standing.result.baseline if standing.result else ""


def _floor_share_text(standing: Standing) -> str:
    return f"{standing.result.floor_fraction:.1%}" if standing.result else ""


def _build_seconds(standing: Standing) -> float | None:
    if standing.fresh:
        return standing.fresh.build_seconds
    builds = standing.report.builds if standing.report else ()
    return sum(build.seconds for build in builds) if builds else None


def _build(standing: Standing) -> str:
    seconds = _build_seconds(standing)
    return "" if seconds is None else f"{seconds:.1f}"


def _sectors(standing: Standing) -> float | None:
    counters = standing.report.counters if standing.report else None
    return counters.sectors_per_request if counters else None


def _conflicts(standing: Standing) -> float | None:
    counters = standing.report.counters if standing.report else None
    return counters.bank_conflicts if counters else None


def _ratio(number: Callable[[Standing], float | None], unit: str = "") -> Callable[[Standing], str]:
    def text(standing: Standing) -> str:
        value = number(standing)
        return "" if value is None else f"{value:.2f}{unit}"

    return text


def _state(standing: Standing) -> str:
    """Return a remark: why the submission's time does not count, or that it is nondeterministic.

    The result is empty if there is nothing to remark.
    """
    if standing.is_stale:
        return "stale: measured before a change"
    if standing.fresh and standing.fresh.findings:
        return f"suspicious: {standing.fresh.findings[0]}"
    if standing.report and not standing.report.is_deterministic:
        return "nondeterministic"
    return ""


def _own_configuration(standing: Standing) -> str:
    """Return the verdict at the reference's own sizes, for a submission that is not right.

    The text is "right" for `passed`, because a submission that fails at other sizes can be right at
    these sizes. The text is empty for a right submission, or if these sizes were not checked.
    """
    if standing.report is None or standing.is_right:
        return ""
    own = standing.report.own_configuration
    return "right" if own == "passed" else own or ""


def _not_run(standing: Standing) -> str:
    count = _NOT_RUN(standing)
    return f"{count:,}" if count else ""


def _own_work(standing: Standing) -> float | None:
    share = standing.report.own_work if standing.report else None
    return None if share == 1.0 else share


def _own_work_text(standing: Standing) -> str:
    share = _own_work(standing)
    return "" if share is None else f"{share:.1%}"


def _lines_run(standing: Standing) -> float | None:
    coverage = standing.report.coverage if standing.report else None
    return coverage.share if coverage else None


def _lines_run_text(standing: Standing) -> str:
    share = _lines_run(standing)
    # Rounded down, so that 100 % means every line.
    return "" if share is None else f"{math.floor(100 * share)}%"


def _measured(standing: Standing) -> str:
    result = standing.result
    return f"{result.device}, {result.measured_at[:10]}" if result else ""


_PASSED, _DECLINED, _FAILED = _count("passed"), _count("declined"), _count(*AMISS)
_NOT_RUN = _count("not run")

_COLUMNS = (
    Column(
        "rank",
        _rank,
        lambda s: s.rank,
        meaning="rank among the submissions that were measured in the same way",
    ),
    Column("submission", lambda s: s.submission, align="left"),
    Column("verdict", lambda s: s.verdict, align="left"),
    Column(
        "state",
        _state,
        align="left",
        meaning="why its time does not count, or that its output differs between calls",
    ),
    Column("passed", _whole(_PASSED), _PASSED, meaning="cases whose every output is right"),
    Column("declined", _whole(_DECLINED), _DECLINED, meaning="cases that it refuses itself"),
    Column("failed", _whole(_FAILED), _FAILED),
    Column("not run", _not_run, _NOT_RUN, meaning="cases that take too long on the simulator"),
    Column(
        "own configuration",
        _own_configuration,
        align="left",
        meaning="verdict of the problem's own configuration, unless it passed",
    ),
    Column(
        "precision",
        lambda s: s.precision or "",
        align="left",
        meaning="the tightest class whose error bound holds in every case",
    ),
    Column(
        "own work",
        _own_work_text,
        _own_work,
        meaning="the share of the work that its own kernels did, unless all",
    ),
    Column(
        "median ms",
        _median,
        _of_result("median_ms"),
        meaning="device time with its 95 % confidence interval",
    ),
    Column(
        "speedup",
        _speedup,
        _of_result("speedup"),
        meaning="over the fastest baseline of its own precision class, with its 95 % interval",
    ),
    Column("over", _baseline, align="left", meaning="that baseline"),
    Column(
        "of floor",
        _floor_share_text,
        _of_result("floor_fraction"),
        meaning="the least possible time over the median",
    ),
    Column(
        "build s", _build, _build_seconds, meaning="seconds of compiling, where it was compiled"
    ),
    Column(
        "sectors/request",
        _ratio(_sectors),
        _sectors,
        meaning="32-byte sectors of global memory for each request of a warp, on the simulator",
    ),
    Column(
        "bank conflicts",
        _ratio(_conflicts, "-way"),
        _conflicts,
        meaning="wavefronts of shared memory over those needed, on the simulator",
    ),
    Column(
        "lines run",
        _lines_run_text,
        _lines_run,
        meaning="lines of its device code that ran in some case, on the simulator",
    ),
    Column("checked on", lambda s: s.report.device if s.report else "", align="left"),
    Column("measured on", _measured, align="left"),
)


def baseline_rows(board: Board) -> Sequence[tuple[str, str, str]]:
    """Return a row for each kind of baseline: its name, its fp32 time and its tf32 time, as text.

    The text of a time that was not measured is empty.
    """
    if board.measured is None:
        return ()
    found: dict[str, dict[str, str]] = {}
    for name, timing in board.measured.baselines.items():
        kind, _, precision = name.rpartition(" ")
        found.setdefault(kind, {})[precision] = milliseconds(timing)
    return [(kind, by.get("fp32", ""), by.get("tf32", "")) for kind, by in found.items()]


def caption(board: Board) -> str:
    """Return one line on where and how a board's times were measured; empty without times."""
    result = board.measured
    if result is None:
        return ""
    return (
        f"Measured on {result.device}, driver {result.driver}, CUDA {result.cuda}, "
        f"torch {result.torch}, cuDNN {result.cudnn}, the newest on {result.measured_at[:10]}. "
        f"Floor: {result.floor_ms:.3g} ms for {result.bytes:,} bytes and {result.flops:,} "
        "operations."
    )
