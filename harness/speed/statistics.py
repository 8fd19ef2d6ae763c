"""Medians of device times and ratios of medians, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 2000
# The bootstrap draws at random. A fixed seed gives the same interval for the same samples.
_SEED = 0


@dataclass(frozen=True)
class Interval:
    """An estimate (`value`) with the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """Half the length of the interval, as a fraction of the estimate."""
        return (self.high - self.low) / (2 * self.value)


def median_of(samples: Sequence[float]) -> Interval:
    """Return the median of samples, with an interval that is valid for any distribution.

    The ends of the interval are two of the sorted samples. Their ranks come from a binomial
    distribution (Hahn and Meeker, Statistical Intervals, 5.2). With fewer than six samples, the
    interval is their whole range.
    """
    # scipy is imported late. Its import takes as long as everything else that a command without
    # measurements needs.
    from scipy import stats

    ordered = np.sort(samples)
    below = int(stats.binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    low, high = max(below - 1, 0), min(len(ordered) - below, len(ordered) - 1)
    return Interval(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Return the ratio of two series' medians, with an interval from a percentile bootstrap."""
    return _quotient((numerators,), (denominators,))


def ratio_of_ratios(
    numerators: Sequence[float],
    numerators_baseline: Sequence[float],
    denominators: Sequence[float],
    denominators_baseline: Sequence[float],
) -> Interval:
    """Return the ratio of two medians from different runs, each divided by its run's baseline.

    Clock and temperature differ between runs, but affect a submission and a baseline of one run
    alike.
    """
    return _quotient((numerators, denominators_baseline), (denominators, numerators_baseline))


def _quotient(over: Sequence[Sequence[float]], under: Sequence[Sequence[float]]) -> Interval:
    """Return the product of the medians of `over` divided by the product of those of `under`."""
    samples = [np.asarray(each) for each in (*over, *under)]

    def quotient(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        medians = [np.median(each, axis=axis) for each in drawn]
        found: np.ndarray = np.prod(medians[: len(over)], axis=0) / np.prod(
            medians[len(over) :], axis=0
        )
        return found

    value = float(quotient(*samples))
    if min(map(len, samples)) < 2:
        return Interval(value, value, value)
    # Imported late, as in `median_of`.
    from scipy import stats

    # Each series is resampled by itself. Pairs of one round cannot be used, because series of
    # different runs have different lengths.
    found = stats.bootstrap(
        samples,
        quotient,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return Interval(
        value, float(found.confidence_interval.low), float(found.confidence_interval.high)
    )
