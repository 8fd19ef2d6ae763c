"""Comparisons of the speed of two versions: by counters, measured times or stored results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.engines.evaluator import EvaluationError
from harness.evaluate import Request
from harness.gate import speed
from harness.gate.decision import Change
from harness.gate.plan import VersionPair
from harness.records.report import Report
from harness.speed import plan as speed_plan
from harness.speed import result as results
from harness.speed.contender import ContenderError
from harness.speed.measurement import Measurement
from harness.speed.result import SpeedResult

Measure = Callable[[speed_plan.SpeedPlan], Measurement]
"""A function that times all entries of a plan in one run, as an engine does."""

HEAD, BASE = "head", "base"
# The rounds end when half the ratio's interval is this fraction of the threshold. A wider interval
# would often cross the threshold, and the outcome would be ambiguous.
_SHARP = 0.2


class SpeedEvidence(Protocol):
    """A method of comparing the speed of an old version (base) and a new version (head)."""

    def __call__(
        self, pair: VersionPair, head: Report, base: Report | None, threshold: float
    ) -> Change:
        """Compare the speed of two versions, both of which are right, and return the outcome.

        A change of at most the fraction `threshold` counts as the same.
        """


def compare_counters(
    pair: VersionPair, head: Report, base: Report | None, threshold: float
) -> Change:
    """Compare the simulator's counters of both versions, which their reports contain."""
    del pair
    if base is None or base.counters is None or head.counters is None:
        return Change("missing", "counters", "one version has no counters of the simulator")
    compilers = base.versions.get("nvcc"), head.versions.get("nvcc")
    if compilers[0] != compilers[1]:
        reason = (
            f"the counters come from different compilers: nvcc {compilers[0]} before, nvcc "
            f"{compilers[1]} now"
        )
        return Change("missing", "counters", reason)
    if head.problem_hash != base.problem_hash:
        return Change("missing", "counters", "the reference changed after the base was counted")
    return speed.by_counters(head.counters, base.counters, threshold)


@dataclass(frozen=True)
class Measured:
    """Comparison of device times, with calls of both versions interleaved in one measurement.

    Attributes:
        measure: Function that times the submissions of a plan.
        request: Function that makes a request from a submission's file and a problem's file.
        seconds: Most seconds that the timing rounds of one pair of versions may take.
    """

    measure: Measure
    request: Callable[[Path, Path], Request]
    seconds: float

    def __call__(
        self, pair: VersionPair, head: Report, base: Report | None, threshold: float
    ) -> Change:
        """Time both versions on the GPU, and compare the times."""
        if base is None or base.precision is None or head.precision is None or pair.head is None:
            return Change("missing", "times", "one version cannot be run")
        plan = speed_plan.SpeedPlan(
            request=self.request(Path(head.path), pair.problem.path),
            entries=(
                speed_plan.PlannedSubmission(HEAD, Path(head.path), head.precision),
                speed_plan.PlannedSubmission(BASE, Path(base.path), base.precision),
            ),
            kinds=(),
            seconds=self.seconds,
            width=_SHARP * threshold,
        )
        try:
            measured = self.measure(plan)
        except ContenderError as error:
            return Change("refused", "times", str(error))
        except EvaluationError as error:
            return Change("missing", "times", f"the timing failed: {error}")
        found = measured.findings.get(HEAD, ())
        if found:
            return Change("refused", "times", f"the times are suspicious: {found[0]}")
        now, then = measured.timings[HEAD], measured.timings[BASE]
        return speed.by_times(now.samples_ms, then.samples_ms, threshold)


@dataclass(frozen=True)
class Recorded:
    """Comparison of stored speed results: new ones from a folder, old ones from a file.

    The file is the base, and has records of the old versions. If it has no speed result for a
    submission and problem, the counters of both versions are compared instead.

    Attributes:
        folder: Folder with the speed results of the present version.
    """

    folder: Path

    def __call__(
        self, pair: VersionPair, head: Report, base: Report | None, threshold: float
    ) -> Change:
        """Find the stored speed results of both versions, and compare them."""
        before = pair.before.result if pair.before else None
        if before is None:
            return compare_counters(pair, head, base, threshold)
        now = self._newest(head)
        if now is None:
            reason = f"{self.folder} has no result of this version; measure it on {before.device}"
            return Change("missing", "results", reason)
        return speed.by_results(now, before, threshold)

    def _newest(self, head: Report) -> SpeedResult | None:
        wanted = (head.submission, head.content_hash, head.problem_hash)
        fitting = [
            result
            for result in results.read(self.folder, head.problem)
            if (result.submission, result.content_hash, result.problem_hash) == wanted
        ]
        return max(fitting, key=lambda result: result.measured_at, default=None)
