"""Limits of texts that come from untrusted code, which may make them as long as it likes."""

from __future__ import annotations

MOST_OF_A_NAME = 200
"""Limit in characters of a name, such as that of a parameter, a class or a kernel."""
MOST_OF_A_MESSAGE = 4_000
"""Limit in characters of a text that is shown as one line."""
MOST_OF_A_DETAIL = 64_000
"""Limit in characters of a text of several lines, such as a traceback."""


def shortened(text: str, most: int) -> str:
    """Return the text if it has at most `most` characters; else its beginning, and how much is cut.

    The result is never longer than `most`.

    >>> shortened("a" * 300, 50)
    'aaaaaaaaaaaaaaaaaaaa (280 more characters are cut)'
    """
    if len(text) <= most:
        return text
    # The number that is cut has no more digits than the length.
    kept = most - len(f" ({len(text)} more characters are cut)")
    return f"{text[:kept]} ({len(text) - kept} more characters are cut)"
