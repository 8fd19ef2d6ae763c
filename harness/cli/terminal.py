"""Output of a report: its text and, on a capable terminal, a small map of the wrong outputs."""

from __future__ import annotations

import os
import shutil
from typing import IO

from harness.records.render import full
from harness.records.report import Report
from harness.records.sketch import MARKS, sketch


def print_report(report: Report, out: IO[str], *, no_color: bool) -> None:
    """Print a report; on a capable terminal, add a map that shows where the output is wrong."""
    lines = [full(report)]
    if _can_show_sketch(out):
        # https://no-color.org: any text switches colours off, except the empty one.
        colour = not (no_color or os.environ.get("NO_COLOR"))
        lines += sketch(report, shutil.get_terminal_size().columns, colour=colour)
    print("\n".join(lines), file=out, flush=True)


def _can_show_sketch(out: IO[str]) -> bool:
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        return False
    try:
        MARKS.encode(getattr(out, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
