"""The speed result of one submission, made from its speed measurement and its report."""

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
    """Return the speed result of a submission, in the form that is stored.

    Args:
        report: The report of the submission, which must have passed.
        precision: The precision class of the submission.
        measured: A measurement of this submission, under the name in the report, and of baselines.

    Raises:
        ContenderError: The measurement has no baseline with which this precision class is compared.
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
    """Return the name of the fastest baseline in the arithmetic that suits a precision class.

    A submission of the class `fp32` is compared only with fp32 baselines. A submission
    of any other class is compared with TF32 baselines, because TF32 is the least precise arithmetic
    in which the reference is timed.

    Raises:
        ContenderError: No baseline of that arithmetic was timed.
    """
    allowed = "fp32" if precision == "fp32" else "tf32"
    medians = {n: t.median_ms for n, t in baselines.items() if n.endswith(allowed)}
    if not medians:
        raise ContenderError(f"no {allowed} baseline could be timed")
    return min(medians, key=lambda name: medians[name])
