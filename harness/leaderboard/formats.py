"""In which formats there is a leaderboard; a command line asks before anything is ranked."""

from __future__ import annotations

from tabulate import tabulate_formats

HTML = "html"
"""A page with charts."""

# Those of tabulate that are no text that can be read as it is need an escape of their own.
FORMATS: tuple[str, ...] = tuple(
    name for name in tabulate_formats if not name.endswith("html") and "latex" not in name
)
"""Tables, by tabulate's names."""
