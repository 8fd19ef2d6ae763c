"""Leaderboards as one HTML page, which loads no fonts, styles or scripts from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from harness.leaderboard.columns import Column, baseline_rows, caption, columns_of
from harness.leaderboard.standings import Board, Standing
from harness.report_page.marks import Mark, chart, mark
from harness.report_page.shell import Link, rendered
from harness.system.escape import one_line


@dataclass(frozen=True)
class _Cell:
    text: str
    sort_key: str | float
    align: str
    address: str


@dataclass(frozen=True)
class _List:
    title: str
    rows: Sequence[Sequence[_Cell]]


@dataclass(frozen=True)
class _Section:
    """One board's section of the page.

    `chart` is the index of the board's chart among the page's charts, or None if the board
    has no times to plot.
    """

    title: str
    columns: Sequence[Column]
    lists: Sequence[_List]
    baselines: Sequence[Sequence[str]]
    caption: str
    chart: int | None


def page(boards: Sequence[Board], reports: str = "") -> str:
    """Return the HTML page of leaderboards; every text of a submission is escaped.

    Args:
        boards: The boards to show.
        reports: Address of the page with the submissions' reports, relative to this page. The
            submissions' names link to that address.
    """
    charts = [None if board.measured is None else chart_of(board) for board in boards]
    places = [None if each is None else number for number, each in enumerate(charts)]
    links: tuple[Link, ...] = (("reports", reports),) if reports else ()
    return rendered(
        "Leaderboard of CUDA submissions",
        "",
        {"kind": "leaderboard", "charts": charts},
        links,
        "page.html.jinja",
        __package__,
        sections=[
            _section(board, place, reports) for board, place in zip(boards, places, strict=True)
        ],
    )


def chart_of(board: Board) -> dict[str, Any]:
    """Return the chart of a board's times; the board must have measured times."""
    assert board.measured is not None  # noqa: S101 - for the type checker
    title = f"Times on {one_line(board.title)}, in milliseconds"
    return chart(title, list(_marks(board)), board.measured.floor_ms)


def _marks(board: Board) -> Iterator[Mark]:
    for standing in board.standings:
        if standing.fresh:
            yield mark(standing.submission, standing.fresh.timing, "submission")
    for name, timing in board.measured.baselines.items() if board.measured else ():
        yield mark(name, timing, "baseline")


def _section(board: Board, place: int | None, reports: str) -> _Section:
    columns = columns_of(board)
    lists = [
        _List(
            title,
            [[_cell(column, standing, reports) for column in columns] for standing in standings],
        )
        for title, standings in board.lists()
    ]
    return _Section(
        one_line(board.title),
        columns,
        lists,
        [tuple(map(one_line, row)) for row in baseline_rows(board)],
        one_line(caption(board)),
        place,
    )


def _cell(column: Column, standing: Standing, reports: str) -> _Cell:
    text = one_line(column.text(standing))
    number = column.number(standing) if column.number else None
    address = ""
    if reports and standing.report and column.header == "submission":
        names = (standing.report.submission, standing.report.problem)
        address = f"{reports}#{'/'.join(quote(one_line(name), safe='') for name in names)}"
    return _Cell(text, text if number is None else number, column.align, address)
