"""Medians and ratios with their confidence intervals."""

from __future__ import annotations

import numpy as np
import pytest

from harness.speed.statistics import median_of, ratio_of


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    """The 95 % interval of a median contains it for about 95 % of 400 sets of skewed samples."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        found = median_of(rng.exponential(size=40).tolist())
        held += found.low <= np.log(2) <= found.high
    assert 0.93 <= held / 400 <= 0.99


def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says() -> None:
    """At least 88 of 100 bootstrap intervals of a ratio of medians contain the true ratio."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        over, under = rng.normal(20, 0.5, 40), rng.normal(10, 0.5, 40)
        found = ratio_of(over.tolist(), under.tolist())
        held += found.low <= 2 <= found.high
    assert held >= 88


def test_the_same_samples_give_the_same_interval() -> None:
    """Equal samples give equal intervals, so a gate decides the same when it is run again."""
    samples = np.random.default_rng(2).normal(5, 1, 30).tolist()
    assert ratio_of(samples, samples[::-1]) == ratio_of(samples, samples[::-1])


@pytest.mark.parametrize("samples", [[3.0], [3.0, 3.0]])
def test_few_samples_are_no_error(samples: list[float]) -> None:
    """One or two samples give an interval from the smallest to the largest sample."""
    found = median_of(samples)
    assert (found.value, found.low, found.high) == (3.0, 3.0, 3.0)
    assert ratio_of(samples, samples).value == 1.0
