"""What a case draws besides sizes and values: the move of the model, and the multiprocessors."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import get_args

from harness.messages.kinds import Move
from harness.problems.grid import OWN, cases_for
from harness.problems.problem import load
from harness.problems.surroundings import move_for, multiprocessors_for
from tests.support import REFERENCE, discovered

PROBLEM = load(REFERENCE / "conv_transpose1d.py")
CASES = cases_for(PROBLEM, discovered("flat_index"), seed=1)
SEEDS = range(200)


def test_every_way_of_moving_a_model_is_drawn() -> None:
    """Over many seeds, a case draws each of the six calls that move a model about equally often."""
    drawn = Counter(move_for(replace(CASES[0], seed=seed)) for seed in SEEDS)
    assert drawn.keys() == set(get_args(Move))
    assert min(drawn.values()) > len(SEEDS) / 12


def test_multiprocessors_are_plausible() -> None:
    """The device reports from 3 to 131 multiprocessors, or its usual number."""
    (small,) = (case for case in CASES if case.id == "k1-s1-b3x3x1-to1")
    drawn = [multiprocessors_for(replace(small, seed=seed)) for seed in SEEDS]
    told = [count for count in drawn if count is not None]
    assert 3 <= min(told) < 6
    assert 100 < max(told) <= 131
    assert len(told) < len(drawn)


def test_large_case_never_has_the_usual_number() -> None:
    """A case with a large input reports so few that a persistent kernel has to loop."""
    large = max(CASES, key=lambda case: math.prod(case.input_shapes[0]))
    drawn = [multiprocessors_for(replace(large, seed=seed)) for seed in SEEDS]
    assert all(count is not None and 3 <= count <= 96 for count in drawn)


def test_own_configuration_has_the_usual_number() -> None:
    """The problem's own configuration, whose counters are compared, has the usual number."""
    own = [case for case in CASES if case.label in OWN]
    assert own
    assert all(multiprocessors_for(case) is None for case in own)
