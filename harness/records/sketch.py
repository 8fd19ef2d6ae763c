"""Pictures of a wrong output as lines of text for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from harness.records.picture import WRONG, Picture, View
from harness.records.report import Report

_MOST_ROWS = 12
# A picture of fewer cells shows less than the report's text.
_FEWEST = 12
_MARKS: Mapping[str, str] = {
    **dict.fromkeys(".thb", "·"),
    **dict(zip("0123456789", "░░░▒▒▒▓▓▓█", strict=True)),
    "i": "∞",
    "n": "N",
    "u": "□",
    "o": "◇",
    " ": " ",
}
_COLOURS: Mapping[str, str] = {
    **dict.fromkeys(".thb", "2"),
    **dict.fromkeys("0123456789", "31"),
    **dict.fromkeys("in", "35"),
    "u": "34",
    "o": "36",
    " ": "0",
}
"""Parameters of the escape sequence that selects a rendition (ECMA-48, 8.3.117), by code."""
MARKS = "".join(sorted(set(_MARKS.values()) - {" "}))
"""The characters that a terminal must be able to show."""
_MEANINGS: Mapping[str, str] = {
    "·": "right",
    "░▒▓█": "wrong, from small to large errors",
    "∞": "infinite",
    "N": "NaN",
    "□": "never written",
    "◇": "out of bounds",
}


def sketch(report: Report, columns: int, *, colour: bool) -> Iterator[str]:
    """Yield lines that show where a failing case's output is wrong; none if no case has a picture.

    The smallest failing case is shown. If the picture of that case has too few cells, another
    failing case is shown.

    Args:
        report: The report.
        columns: Largest number of characters in a line.
        colour: True to colour the marks with terminal escape codes.
    """
    pictured = [case for case in report.cases if case.picture]
    if not pictured:
        return
    # The sort is stable: the smallest failing case comes first, the others in the order of the
    # grid.
    pictured.sort(key=lambda case: case.id != report.smallest_failure)
    enough = (case for case in pictured if case.picture and _cells(case.picture) >= _FEWEST)
    case = next(enough, pictured[0])
    assert case.picture is not None  # noqa: S101 - for the type checker
    view = case.picture.detail or case.picture.overview
    page = next(n for n in range(len(view.pages)) if _is_wrong(view, n))
    rows = [row[: columns - 4] for row in view.errors[page][:_MOST_ROWS]]
    first = f"[{', '.join(_first(case.picture, view, page))}]"
    step = "" if view.step == (1, 1) else f", {view.step[0]} by {view.step[1]} elements a mark"
    yield f"  where {case.id} is wrong, from {first} on{step}:"
    for row in rows:
        yield "    " + (_coloured(row) if colour else _marks(row))
    seen = {_MARKS[code] for row in rows for code in row}
    yield "    " + "  ".join(f"{m} {w}" for m, w in _MEANINGS.items() if seen.intersection(m))


def _cells(picture: Picture) -> int:
    view = picture.detail or picture.overview
    return len(view.errors[0]) * len(view.errors[0][0])


def _is_wrong(view: View, page: int) -> bool:
    return any(code in WRONG for row in view.errors[page] for code in row)


def _first(picture: Picture, view: View, page: int) -> Iterator[str]:
    """Yield the index of a view's first element on a page: one text for each dimension.

    A page's number is the flattened index of all dimensions but the last two.
    """
    index: list[int] = []
    number = view.pages[page]
    for size in reversed(picture.shape[:-2]):
        number, at = divmod(number, size)
        index.insert(0, at)
    rank = min(len(picture.shape), 2)
    return map(str, (*index, *view.first[2 - rank :]))


def _marks(codes: Iterable[str]) -> str:
    return "".join(_MARKS[code] for code in codes)


def _coloured(row: str) -> str:
    groups = groupby(row, key=_COLOURS.__getitem__)
    return "".join(f"\x1b[{colour}m{_marks(codes)}\x1b[0m" for colour, codes in groups)
