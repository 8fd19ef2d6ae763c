"""Names of a leaderboard's output formats.

This module is separate, so that a command line can be parsed without the import of the ranking.
"""

from __future__ import annotations

from tabulate import tabulate_formats

HTML = "html"
"""The format of a page with charts."""

# tabulate's HTML and LaTeX formats are left out: they need an escape of their own.
FORMATS: tuple[str, ...] = tuple(
    name for name in tabulate_formats if not name.endswith("html") and "latex" not in name
)
"""The formats of tables, by tabulate's names."""
