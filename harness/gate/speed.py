"""Comparison of the speeds of an old version (base) and a new one (head), by times or counters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.gate.decision import Change, Outcome
from harness.simulator.counters.totals import Totals
from harness.speed.result import SpeedResult, why_not_comparable
from harness.speed.statistics import Interval, ratio_of, ratio_of_ratios

# With fewer samples, a bootstrap's interval is too narrow.
_FEWEST_SAMPLES = 10

# The counters that a kernel's time depends on: turns of warps, and passes through each kind of
# memory. Operations and requests are included in these. Registers and occupancy are not time.
_DECIDING = (
    ("warp instructions", "warp_instructions"),
    ("sectors", "sectors"),
    ("shared-memory wavefronts", "wavefronts"),
    ("local-memory bytes", "local_bytes"),
)


def by_times(head: Sequence[float], base: Sequence[float], threshold: float) -> Change:
    """Compare device times of both versions from one measurement, in any unit."""
    return _of_interval(ratio_of(head, base), min(len(head), len(base)), "times", threshold)


def by_results(head: SpeedResult, base: SpeedResult, threshold: float) -> Change:
    """Compare speed results from different measurements, by their ratios to the same baseline."""
    why = why_not_comparable(head, base)
    if why is None and head.baseline not in base.baselines:
        why = f"only one of them was measured with the baseline {head.baseline}"
    if why is not None:
        return Change("missing", "results", f"the results are not comparable: {why}")
    suspicious = [*head.findings, *base.findings]
    if suspicious:
        return Change("ambiguous", "results", f"a result is suspicious: {suspicious[0]}")
    ratio = ratio_of_ratios(
        head.samples_ms,
        head.baselines[head.baseline].samples_ms,
        base.samples_ms,
        base.baselines[head.baseline].samples_ms,
    )
    fewest = min(len(head.samples_ms), len(base.samples_ms))
    return _of_interval(ratio, fewest, "results", threshold)


def _of_interval(ratio: Interval, samples: int, evidence: str, threshold: float) -> Change:
    numbers = f"{percent(ratio.value)} ({percent(ratio.low)} to {percent(ratio.high)})"
    if samples < _FEWEST_SAMPLES:
        reason = f"{numbers}, from {samples} samples only; {_FEWEST_SAMPLES} are needed"
        return Change("ambiguous", evidence, reason, ratio)
    return Change(_outcome(ratio, threshold), evidence, numbers, ratio)


def _outcome(ratio: Interval, threshold: float) -> Outcome:
    """Return the outcome for a ratio of head to base, by its whole confidence interval.

    The lower limit is 1 / (1 + threshold), not 1 - threshold, so that swapping head and base gives
    the opposite outcome.
    """
    if ratio.low > 1 + threshold:
        return "slower"
    if ratio.high < 1 / (1 + threshold):
        return "faster"
    if ratio.low >= 1 / (1 + threshold) and ratio.high <= 1 + threshold:
        return "same"
    return "ambiguous"


def by_counters(head: Totals, base: Totals, threshold: float) -> Change:
    """Compare the simulator's counters of both versions, which are exact.

    The head is slower if some counters grow by more than the threshold and none shrinks by more. It
    is faster in the opposite case. If one counter grows and another shrinks, the outcome is
    `ambiguous`, since only a GPU can decide.
    """
    ratios = {name: _ratio(getattr(head, key), getattr(base, key)) for name, key in _DECIDING}
    outcomes = {_outcome(Interval(r, r, r), threshold) for r in ratios.values()} - {"same"}
    if len(outcomes) > 1:
        outcome: Outcome = "ambiguous"
    else:
        outcome = outcomes.pop() if outcomes else "same"
    shifted = {name: ratio for name, ratio in ratios.items() if ratio != 1}
    reason = ", ".join(f"{percent(ratio)} {name}" for name, ratio in shifted.items())
    # If one counter grew and another shrank, the growth is what a reader has to look at.
    most = max(
        ratios.values(),
        key=lambda r: r if outcome == "ambiguous" else abs(math.log(r)) if r else math.inf,
    )
    reason = reason or "the deciding counters are unchanged"
    return Change(outcome, "counters", reason, Interval(most, most, most))


def _ratio(now: int, before: int) -> float:
    if now == before:
        return 1.0
    return now / before if before else math.inf


def percent(ratio: float) -> str:
    """Format a ratio of new to old as a change in percent.

    >>> percent(1.021), percent(0.5), percent(float("inf"))
    ('+2.1 %', '-50.0 %', 'from none to some')
    """
    return "from none to some" if math.isinf(ratio) else f"{ratio - 1:+.1%}".replace("%", " %")
