"""The number of usable processors, and their division among evaluations."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return the number of processors on which this process may run."""
    return len(os.sched_getaffinity(0))


def cores_each(jobs: int, evaluations: int) -> int:
    """Return how many processors each evaluation may use if up to `jobs` run at a time."""
    return max(1, usable_cores() // max(1, min(jobs, evaluations)))
