"""What samples of device time say, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_RESAMPLES = 2000
# Bootstrapping is random; the same samples are to give the same interval every time.
_SEED = 0


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """Half the interval's length as a fraction of the estimate."""
        return (self.high - self.low) / (2 * self.value)


def median_of(samples: Sequence[float]) -> Interval:
    """The median, with the distribution-free interval from the samples' order.

    The ranks are those of a binomial distribution (Hahn and Meeker, Statistical Intervals, 5.2);
    fewer than six samples give the whole range.
    """
    ordered = np.sort(samples)
    below = int(stats.binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    low, high = max(below - 1, 0), min(len(ordered) - below, len(ordered) - 1)
    return Interval(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """The ratio of two medians; the interval is a percentile bootstrap's."""
    over, under = np.asarray(numerators), np.asarray(denominators)

    def ratio(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        quotient: np.ndarray = np.median(x, axis=axis) / np.median(y, axis=axis)
        return quotient

    value = float(np.median(over) / np.median(under))
    if len(over) < 2 or len(under) < 2:
        return Interval(value, value, value)
    found = stats.bootstrap(
        (over, under),
        ratio,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return Interval(
        value, float(found.confidence_interval.low), float(found.confidence_interval.high)
    )
