"""Leaderboards as tables, for a terminal and in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tabulate import tabulate

from harness.leaderboard.columns import baseline_rows, caption, columns_of
from harness.leaderboard.standings import Board
from harness.system.escape import markdown, one_line

_MARKDOWN = ("github", "pipe")


def text(boards: Iterable[Board], table_format: str) -> str:
    """Return all boards with captions and baselines, in one of the formats `formats.FORMATS`."""
    return "\n\n".join(part for board in boards for part in _parts(board, table_format) if part)


def _parts(board: Board, table_format: str) -> Iterator[str]:
    is_markdown = table_format in _MARKDOWN
    shown = markdown if is_markdown else one_line
    yield ("## " if is_markdown else "") + shown(board.title)
    if not board.standings:
        yield "no submission fits"
    columns = columns_of(board)
    aligned = [column.align for column in columns]
    headers = [column.header for column in columns]
    for title, standings in board.lists():
        if title:
            yield ("### " if is_markdown else "") + title
        rows = [[column.text(standing) for column in columns] for standing in standings]
        yield _table(rows, headers, aligned, table_format, shown)
    yield shown(caption(board))
    baselines = baseline_rows(board)
    if baselines:
        kinds = ("baseline", "fp32, median ms", "tf32, median ms")
        yield _table(baselines, kinds, ("left", "right", "right"), table_format, shown)


def _table(
    rows: Sequence[Sequence[str]],
    headers: Sequence[str],
    align: Sequence[str],
    table_format: str,
    shown: Callable[[str], str],
) -> str:
    return tabulate(
        [[shown(cell) for cell in row] for row in rows],
        headers=headers,
        colalign=align,
        tablefmt=table_format,
        disable_numparse=True,
    )
