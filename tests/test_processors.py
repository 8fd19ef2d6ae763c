"""Processors, shared out among evaluations."""

from __future__ import annotations

import pytest

from harness.system.processors import cores_each, usable_cores


@pytest.mark.parametrize(
    ("jobs", "evaluations", "share"),
    [(1, 1, 1), (1, 5, 1), (4, 1, 1), (4, 2, 2), (2, 40, 2)],
)
def test_evaluations_share_the_processors(jobs: int, evaluations: int, share: int) -> None:
    """One alone has them all; of several each has its part of those that run at a time."""
    assert cores_each(jobs, evaluations) == max(1, usable_cores() // share)


def test_more_evaluations_than_processors() -> None:
    """Each has one."""
    assert cores_each(1000, 1000) == 1
