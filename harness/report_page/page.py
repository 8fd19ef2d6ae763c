"""The HTML page of a run's reports, and the path that the page is written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.report_page.data import Pair, page_data
from harness.report_page.shell import Link, rendered

NAME, LEADERBOARD = "index.html", "leaderboard.html"
"""File names of the page and of the leaderboard's page in a folder of pages."""


def page(pairs: Sequence[Pair], subtitle: str, links: Sequence[Link] = ()) -> str:
    """Return the HTML page of submissions' reports; text from the reports is never markup."""
    return rendered("CUDA submissions", subtitle, {"kind": "report", **page_data(pairs)}, links)


def subtitle_for(reports: int) -> str:
    """Return the subtitle of a page with that number of reports.

    >>> subtitle_for(1), subtitle_for(20)
    ('1 report', '20 reports')
    """
    return f"{reports} report{'s' * (reports != 1)}"


def target(path: Path) -> Path:
    """Return the file for the page: `path` itself, or `index.html` in it if `path` is a folder.

    A path without a suffix is a folder, unless a file of that name exists.
    """
    is_folder = path.is_dir() or (not path.suffix and not path.exists())
    return path / NAME if is_folder else path
