"""Which submission takes the place of which: a new name must not escape the comparison."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from harness.gate.before import Before
from harness.problems.discovery import Submission

# Of the lines of both files, as git has it.
_ALIKE = 0.5


def renames(gone: Mapping[str, Before], added: Mapping[str, Submission]) -> dict[str, str]:
    """BothSides submissions that are gone with new ones that hold the same, or half of it.

    Args:
        gone: What is known of those that only the base has, by name. Of what was recorded there is
            no text to compare, only whether it is the same.
        added: Those that only the head has, by name.

    Returns:
        The old name of each new one that takes the place of an old one.
    """
    alike = [
        (_likeness(before, submission), new, old)
        for old, before in gone.items()
        for new, submission in added.items()
    ]
    found: dict[str, str] = {}
    for likeness, new, old in sorted(alike, reverse=True):
        if likeness >= _ALIKE and new not in found and old not in found.values():
            found[new] = old
    return found


def _likeness(before: Before, submission: Submission) -> float:
    if before.content_hash == submission.content_hash:
        return 1.0
    if before.submission is None:
        return 0.0
    old, new = (each.path.read_text().splitlines() for each in (before.submission, submission))
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()
