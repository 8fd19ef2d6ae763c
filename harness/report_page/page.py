"""A run's page, and where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.report_page.data import Pair, page_data
from harness.report_page.shell import Link, rendered

NAME, LEADERBOARD = "index.html", "leaderboard.html"
"""Of the page, and of the leaderboard's, in a folder of pages."""


def page(pairs: Sequence[Pair], subtitle: str, links: Sequence[Link] = ()) -> str:
    """The page of some submissions; no text of theirs is markup."""
    return rendered("CUDA submissions", subtitle, {"kind": "report", **page_data(pairs)}, links)


def counted(reports: int) -> str:
    """A page's subtitle.

    >>> counted(1), counted(20)
    ('1 report', '20 reports')
    """
    return f"{reports} report{'s' * (reports != 1)}"


def target(path: Path) -> Path:
    """The file that is meant: a folder's page, where a folder is named.

    What has no suffix is a folder, if it is not there as a file.
    """
    is_folder = path.is_dir() or (not path.suffix and not path.exists())
    return path / NAME if is_folder else path
