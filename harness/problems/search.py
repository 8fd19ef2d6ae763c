"""What a search for a failure starts from: everything that a grid's few cases leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.problems.discovery import Submission, taken_by
from harness.problems.problem import Problem


@dataclass(frozen=True)
class Search:
    """What to look for, when all cases of a grid are right.

    Attributes:
        seconds: For how long.
        taken: The problem's own constructor arguments that the submission takes, too.
        numbers: Integers that the submission's text states.
    """

    seconds: float
    taken: Mapping[str, object]
    numbers: tuple[int, ...]


def search_for(problem: Problem, submission: Submission, seconds: float) -> Search | None:
    """Say what to look for; None for nothing, where there is no time."""
    if not seconds:
        return None
    return Search(seconds, taken_by(submission, problem), submission.numbers)
