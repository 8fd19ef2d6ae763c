"""How many processors there are, and who gets how many of them."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0))


def cores_each(jobs: int, evaluations: int) -> int:
    """The share of processors of each of so many evaluations, of which `jobs` run at a time."""
    return max(1, usable_cores() // max(1, min(jobs, evaluations)))
