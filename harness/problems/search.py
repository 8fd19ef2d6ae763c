"""The starting data of a search for failures outside the grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.problems.discovery import Submission, taken_by
from harness.problems.problem import Problem


@dataclass(frozen=True)
class Search:
    """A search for a failing case, after all cases of a grid were right.

    Attributes:
        seconds: Duration of the search.
        taken: Those of the problem's own constructor arguments that the submission takes too.
        numbers: Integers that the submission's text states.
    """

    seconds: float
    taken: Mapping[str, object]
    numbers: tuple[int, ...]


def search_for(problem: Problem, submission: Submission, seconds: float) -> Search | None:
    """Return the search for a submission, or None if its duration is 0."""
    if not seconds:
        return None
    return Search(seconds, taken_by(submission, problem), submission.numbers)
