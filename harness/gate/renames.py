"""Which submission takes the place of which: a new name must not escape the comparison."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from harness.gate.before import Before
from harness.problems.discovery import Submission
from harness.problems.source_numbers import without_comments

# Of the lines of the shorter file.
_ALIKE = 0.5


def renames(gone: Mapping[str, Before], added: Mapping[str, Submission]) -> dict[str, str]:
    """Pair submissions that are gone with new ones that hold the same, or half of it.

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
    old, new = (_code(each.path) for each in (before.submission, submission))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    # Of the shorter one: what is added to a copy makes nothing else of it.
    return sum(block.size for block in blocks) / max(min(len(old), len(new)), 1)


def _code(path: Path) -> list[str]:
    """The lines of a file that say something, however they are indented."""
    lines = map(str.strip, without_comments(path.read_text()).splitlines())
    return [line for line in lines if line]
