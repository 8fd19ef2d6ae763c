"""Boards as one HTML page that needs nothing else: no scripts, fonts or styles from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.leaderboard.chart import Chart, chart_of
from harness.leaderboard.columns import Column, baseline_rows, caption, columns_of
from harness.leaderboard.standings import Board, Standing
from harness.system.escape import one_line


@dataclass(frozen=True)
class _Cell:
    text: str
    sort_key: str | float
    align: str


@dataclass(frozen=True)
class _List:
    title: str
    rows: Sequence[Sequence[_Cell]]


@dataclass(frozen=True)
class _Section:
    title: str
    columns: Sequence[Column]
    lists: Sequence[_List]
    baselines: Sequence[tuple[str, str, str]]
    caption: str
    chart: Chart | None


def page(boards: Sequence[Board]) -> str:
    """The whole page; every text of a submission's is escaped."""
    environment = Environment(
        loader=PackageLoader("harness.leaderboard", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = files("harness.leaderboard").joinpath("page.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.jinja").render(
        sections=[_section(board) for board in boards],
        script=script,
        # A browser runs this script, and none that came in with a name.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    )


def _section(board: Board) -> _Section:
    columns = columns_of(board)
    lists = [
        _List(title, [[_cell(column, standing) for column in columns] for standing in standings])
        for title, standings in board.lists()
    ]
    return _Section(
        one_line(board.title),
        columns,
        lists,
        baseline_rows(board),
        caption(board),
        chart_of(board),
    )


def _cell(column: Column, standing: Standing) -> _Cell:
    text = one_line(column.text(standing))
    number = column.number(standing) if column.number else None
    return _Cell(text, text if number is None else number, column.align)
