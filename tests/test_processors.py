"""Distribution of a machine's processors to simultaneous evaluations."""

from __future__ import annotations

import pytest

from harness.system.processors import cores_each, usable_cores


@pytest.mark.parametrize(
    ("jobs", "evaluations", "share"),
    [(1, 1, 1), (1, 5, 1), (4, 1, 1), (4, 2, 2), (2, 40, 2)],
)
def test_evaluations_share_the_processors(jobs: int, evaluations: int, share: int) -> None:
    """A single evaluation gets all processors; simultaneous ones share the processors equally."""
    assert cores_each(jobs, evaluations) == max(1, usable_cores() // share)


def test_more_evaluations_than_processors() -> None:
    """Each evaluation gets one processor if there are more evaluations than processors."""
    assert cores_each(1000, 1000) == 1
