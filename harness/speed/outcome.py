"""The result of one submission on one problem, from what was measured and what was checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from harness import __version__
from harness.records.comparison import Precision
from harness.records.report import Report
from harness.speed.contender import ContenderError
from harness.speed.measurement import Measurement
from harness.speed.result import SpeedResult, Timing
from harness.speed.statistics import ratio_of


def speed_result(report: Report, precision: Precision, measured: Measurement) -> SpeedResult:
    """What is kept of a measurement.

    Args:
        report: The submission's, which passed.
        precision: Its class.
        measured: With the submission among the contenders, under its name.

    Raises:
        ContenderError: There is no baseline to compare with.
    """
    own = measured.timings[report.submission]
    baselines = {n: t for n, t in measured.timings.items() if n != report.submission}
    baseline = fastest_of_class(baselines, precision)
    speedup = ratio_of(baselines[baseline].samples_ms, own.samples_ms)
    return SpeedResult(
        submission=report.submission,
        content_hash=report.content_hash,
        problem=report.problem,
        problem_hash=report.problem_hash,
        precision=precision,
        **asdict(own),
        speedup=speedup.value,
        speedup_interval=(speedup.low, speedup.high),
        baseline=baseline,
        baselines=baselines,
        floor_ms=measured.floor_ms,
        bytes=measured.bytes,
        flops=measured.flops,
        build_seconds=sum(build.seconds for build in report.builds),
        findings=measured.findings.get(report.submission, ()),
        rounds=len(own.samples_ms),
        discarded=measured.discarded,
        **asdict(measured.conditions),
        harness=__version__,
        measured_at=measured.measured_at,
        looks=measured.looks,
    )


def fastest_of_class(baselines: Mapping[str, Timing], precision: Precision) -> str:
    """The name of the fastest baseline that may round as much as the class.

    TF32 is the least precise that the reference is timed with.

    Raises:
        ContenderError: There is none.
    """
    allowed = "fp32" if precision == "fp32" else "tf32"
    medians = {n: t.median_ms for n, t in baselines.items() if n.endswith(allowed)}
    if not medians:
        raise ContenderError(f"no {allowed} baseline could be timed")
    return min(medians, key=lambda name: medians[name])
