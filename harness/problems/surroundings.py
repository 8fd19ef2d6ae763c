"""The surroundings of a model that a case draws: how the model is moved, and the device's size.

A submission that recognises the harness by one way of moving a model, or by one number of
multiprocessors, is right only there.
"""

from __future__ import annotations

import math
import random
from typing import get_args

from harness.messages.kinds import Move
from harness.problems.grid import OWN, Case

# Numbers of multiprocessors that the device may report: those of the smallest GPUs up to its own.
# With more than its own, a cooperative launch would be refused.
_FEWEST, _MOST = 3, 131
_SHARE_OF_USUAL = 0.25
# A persistent kernel loops only where tiles are more than multiprocessors. So the few cases with
# inputs of so many numbers get a number that leaves many tiles for each.
_LARGE, _MOST_FOR_LARGE = 1 << 14, 96


def move_for(case: Case) -> Move:
    """Return the call with which the model is moved in a case; its seed decides."""
    return random.Random(f"{case.seed} move").choice(get_args(Move))  # noqa: S311 - as cases are


def multiprocessors_for(case: Case) -> int | None:
    """Return how many multiprocessors the device reports in a case; None for its usual number.

    In the problem's own configuration, and in a quarter of the small cases, it is the usual number.
    In all others, the case's seed draws a number. In small cases, small numbers are as likely as
    large ones.
    """
    if case.multiprocessors or case.label in OWN:
        return case.multiprocessors
    chance = random.Random(f"{case.seed} multiprocessors")  # noqa: S311 - as cases are
    if max(map(math.prod, case.input_shapes), default=0) >= _LARGE:
        return chance.randint(_FEWEST, _MOST_FOR_LARGE)
    if chance.random() < _SHARE_OF_USUAL:
        return None
    return round(math.exp(chance.uniform(math.log(_FEWEST), math.log(_MOST))))
