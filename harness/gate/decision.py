"""The gate's decision on one submission and one problem."""

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
"""The outcome for a submission.

faster, same, slower: By more than the threshold, or within it, by the whole interval.
ambiguous: The evidence does not decide.
fixed: Right now and wrong before, so the speeds cannot be compared.
new, removed: Only one side has it.
refused: Its results got worse.
missing: The base has nothing to compare with.
"""

WORSE: tuple[Outcome, ...] = ("slower", "refused", "missing")
"""The outcomes that fail the gate."""


@dataclass(frozen=True)
class Change:
    """The change of speed between two right versions, according to some evidence.

    Attributes:
        outcome: The outcome.
        evidence: Kind of numbers that were compared.
        reason: One line with the numbers.
        ratio: The head's time or counter over the base's, if both exist.
    """

    outcome: Outcome
    evidence: str
    reason: str
    ratio: Interval | None = None


@dataclass(frozen=True)
class Decision:
    """The decision on one submission and one problem.

    Attributes:
        submission: Name of the submission.
        problem: Name of the problem; empty if the file is not a submission.
        change: The outcome with its reason.
        path: The head's file, if it exists.
        line: Line of that file that is to blame, if known.
        head, base: Reports of both sides; None if a side was neither evaluated nor recorded.
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
        """True if the decision fails the gate."""
        return self.change.outcome in WORSE
