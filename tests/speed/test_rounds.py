"""What timed calls are fed with."""

from __future__ import annotations

import random

import pytest
import torch

from harness.problems.problem import load
from harness.problems.runs import Distribution
from harness.problems.values import runs_for
from harness.speed.rounds import any_distribution, draw
from tests.support import REFERENCE

PROBLEM = load(REFERENCE / "conv_transpose1d.py")


def test_rounds_have_what_checks_have() -> None:
    """Kinds of the checked inputs come that every class can hold; most are the problem's."""
    chance = random.Random(3)  # noqa: S311 - nothing is secret here
    drawn = [any_distribution(PROBLEM, chance) for _ in range(2000)]
    assert set(drawn) == {run.distribution for run in runs_for(PROBLEM) if not run.is_beyond_half}
    assert 0.7 < drawn.count("uniform") / len(drawn) < 0.9


@pytest.mark.parametrize(
    ("distribution", "least", "most"),
    [
        ("uniform", 0, 1),
        ("small", 0, 1e-3),
        ("large", 0, 1e3),
        ("tiny", 0, 1e-12),
        ("exact", -4095, 4095),
    ],
)
def test_values_are_of_their_kind(distribution: Distribution, least: float, most: float) -> None:
    """In the ranges of the checked ones; exact ones are odd."""
    x = torch.empty(2, 3, 500)
    draw(distribution, x, torch.Generator().manual_seed(1))
    assert x.min() >= least
    assert x.max() <= most
    assert x.max() > most / 2
    assert distribution != "exact" or bool((x % 2 == 1).all())


def test_an_impulse_is_a_single_one() -> None:
    """All else is zero."""
    x = torch.full((2, 3, 50), torch.nan)
    draw("impulse", x, torch.Generator().manual_seed(1))
    assert x.sum() == 1
    assert x.count_nonzero() == 1
