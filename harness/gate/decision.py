"""The gate's decision on one submission and one problem, and its possible outcomes."""

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
"""The outcome of comparing a submission's new version (head) with the old one (base).

faster, slower: The whole confidence interval of the change exceeds the threshold.
same: The whole interval is within the threshold.
ambiguous: The numbers do not decide between these outcomes.
fixed: The head is right and the base was wrong, so their speeds cannot be compared.
new, removed: Only the head, or only the base, has the submission.
refused: The head is wrong or less precise, or its times are suspicious.
missing: The base or its numbers do not exist, or cannot be compared.
"""

WORSE: tuple[Outcome, ...] = ("slower", "refused", "missing")
"""The outcomes that fail the gate."""


@dataclass(frozen=True)
class Change:
    """The change from the old version (base) to the new one (head), with the reason in numbers.

    Attributes:
        outcome: The outcome, such as `faster` or `refused`.
        evidence: Kind of numbers that were compared: `times`, `counters` or `results`; empty if
            speed was not compared.
        reason: One line that explains the outcome.
        ratio: The head's time or counter divided by the base's, if both exist.
    """

    outcome: Outcome
    evidence: str
    reason: str
    ratio: Interval | None = None


@dataclass(frozen=True)
class Decision:
    """The gate's decision on one submission and one problem.

    Attributes:
        submission: Name of the submission.
        problem: Name of the problem; empty if the file is not a submission.
        change: The outcome with its reason.
        path: The submission's present file, if it exists.
        line: Number of the line in that file that causes the outcome, if known.
        head, base: Reports of the new and of the old version; None if a version was neither
            evaluated nor recorded.
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
        """True if the outcome fails the gate."""
        return self.change.outcome in WORSE
