"""The speed result of one submission, made from its measurement and its check."""

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
    """Return the result to store for a submission.

    Args:
        report: The report of the submission, which passed.
        precision: The precision class of the submission.
        measured: A measurement that has the submission among its contenders, under its name.

    Raises:
        ContenderError: The measurement has no baseline to compare with.
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
    """Return the name of the fastest baseline whose precision is comparable to the class.

    The class `fp32` is compared with fp32 baselines alone. Every other class is compared with TF32
    ones, because TF32 is the least precise arithmetic in which the reference is timed.

    Raises:
        ContenderError: No such baseline was timed.
    """
    allowed = "fp32" if precision == "fp32" else "tf32"
    medians = {n: t.median_ms for n, t in baselines.items() if n.endswith(allowed)}
    if not medians:
        raise ContenderError(f"no {allowed} baseline could be timed")
    return min(medians, key=lambda name: medians[name])
