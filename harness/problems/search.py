"""Parameters of a search for failing configurations outside the grid of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.problems.discovery import Submission, taken_by
from harness.problems.problem import Problem


@dataclass(frozen=True)
class Search:
    """Parameters of a search for a failing case, made after all cases of a grid were right.

    Attributes:
        seconds: Duration of the search, in seconds.
        taken: The reference's own constructor arguments that the submission accepts too, by name.
        numbers: Integers in the submission's text that may be sizes.
    """

    seconds: float
    taken: Mapping[str, object]
    numbers: tuple[int, ...]


def search_for(problem: Problem, submission: Submission, seconds: float) -> Search | None:
    """Return the parameters of a search for one submission, or None if `seconds` is 0."""
    if not seconds:
        return None
    return Search(seconds, taken_by(submission, problem), submission.numbers)
