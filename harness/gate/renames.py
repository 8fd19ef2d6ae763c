"""Pairing of old and new names of renamed submissions, so that the gate compares them too."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from harness.gate.before import Before
from harness.problems.discovery import Submission
from harness.problems.source_numbers import without_comments

# The share of the shorter file's lines that two files must have in common.
_ALIKE = 0.5


def renames(gone: Mapping[str, Before], added: Mapping[str, Submission]) -> dict[str, str]:
    """Pair removed submissions with new ones that have equal content or many lines in common.

    Many lines are at least half of the shorter file's lines.

    Args:
        gone: Submissions that only the base has, by name. If the base has only records of a
            submission, its text is unknown, so it is paired only with equal content.
        added: Submissions that only the head has, by name.

    Returns:
        For the name of each new submission that replaces an old one, the old name.
    """
    # All pairs are ranked and the best are taken first. Each name is used once.
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
    # The shorter file is the measure. Otherwise padding a copy would make it a different
    # submission.
    return sum(block.size for block in blocks) / max(min(len(old), len(new)), 1)


def _code(path: Path) -> list[str]:
    """Return the non-empty lines of a Python file, without comments and indentation."""
    lines = map(str.strip, without_comments(path.read_text()).splitlines())
    return [line for line in lines if line]
