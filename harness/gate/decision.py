"""What the gate says of one submission on one problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.records.report import Report
from harness.speed.statistics import Interval

Outcome = Literal[
    "faster",
    "same",
    "slower",
    "ambiguous",
    "fixed",
    "new",
    "removed",
    "refused",
    "missing",
]
"""What became of a submission.

faster, same, slower: By more than the threshold, or within it, as sure as the interval is.
ambiguous: The evidence does not say.
fixed: Right now and wrong before, so that there is nothing to compare the speed with.
new, removed: Only one side has it.
refused: It got worse in what it computes.
missing: There is nothing to compare with.
"""

WORSE: tuple[Outcome, ...] = ("slower", "refused", "missing")
"""The outcomes that fail the gate."""


@dataclass(frozen=True)
class Change:
    """What some evidence says of the speed of two right versions.

    Attributes:
        outcome: What it comes to.
        evidence: What was compared.
        reason: One line with the numbers.
        ratio: The head's time, or counter, over the base's, where there is one.
    """

    outcome: Outcome
    evidence: str
    reason: str
    ratio: Interval | None = None


@dataclass(frozen=True)
class Decision:
    """One submission on one problem.

    Attributes:
        submission: Its name.
        problem: The problem's name; empty where the file is no submission at all.
        change: What is said of it.
        path: The head's file, where there is one.
        line: The line of it that is to blame, where one is known.
        head, base: The reports of both sides; None of what was not evaluated or recorded.
    """

    submission: str
    problem: str
    change: Change
    path: Path | None = None
    line: int | None = None
    head: Report | None = None
    base: Report | None = None

    @property
    def is_worse(self) -> bool:
        """Whether it fails the gate."""
        return self.change.outcome in WORSE
