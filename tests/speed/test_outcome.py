"""The speed result that is made from a measurement and stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records.comparison import Precision
from harness.records.report import BuildReport
from harness.speed.contender import ContenderError
from harness.speed.measurement import Conditions, Measurement
from harness.speed.outcome import speed_result
from harness.speed.result import GpuReading, SpeedResult
from tests.support import report, timing

CHECKED = replace(
    report(verdict="passed"),
    builds=(BuildReport("a", 3.0, False, "light"), BuildReport("b", 4.0, True, "light")),
)
MEASURED = Measurement(
    timings={
        CHECKED.submission: timing(2.0),
        "eager fp32": timing(8.0),
        "cudnn.benchmark fp32": timing(6.0),
        "eager tf32": timing(4.0),
    },
    findings={CHECKED.submission: ("below the floor",), "other": ("nothing of ours",)},
    conditions=Conditions("NVIDIA H200", "580", "13.0", "2.11", "9.19", 1980, 500, 50, 4300),
    floor_ms=1.0,
    bytes=100,
    flops=200,
    discarded=3,
    measured_at="2026-11-21T20:15:00+00:00",
    looks=(GpuReading(1980.0, 500.0, 50.0, ("power limit",), is_counted=True),),
)


@pytest.mark.parametrize(
    ("precision", "baseline", "speedup"),
    [
        ("fp32", "cudnn.benchmark fp32", 3.0),
        ("tf32", "eager tf32", 2.0),
        ("bf16", "eager tf32", 2.0),
    ],
)
def test_speedup_is_over_the_fastest_baseline_of_the_class(
    precision: Precision, baseline: str, speedup: float
) -> None:
    """A submission of class fp32 is compared with the fastest fp32 baseline.

    A submission of another class is compared with the TF32 baseline.
    """
    result = speed_result(CHECKED, precision, MEASURED)
    assert (result.precision, result.baseline) == (precision, baseline)
    assert result.speedup == pytest.approx(speedup)


def test_everything_that_was_measured_is_kept() -> None:
    """A speed result has the submission's times and findings, the conditions and the baselines."""
    result = speed_result(CHECKED, "fp32", MEASURED)
    own = MEASURED.timings[CHECKED.submission]
    assert result.timing == own
    assert result.rounds == len(own.samples_ms)
    assert set(result.baselines) == set(MEASURED.timings) - {CHECKED.submission}
    assert (result.device, result.cudnn, result.bandwidth_gbs) == ("NVIDIA H200", "9.19", 4300)
    assert result.findings == ("below the floor",)
    assert (result.discarded, result.build_seconds) == (3, 7.0)
    assert result.looks == MEASURED.looks
    assert SpeedResult.from_json(result.to_json()) == result
    assert (result.content_hash, result.problem_hash) == (
        CHECKED.content_hash,
        CHECKED.problem_hash,
    )


def test_without_a_baseline_of_the_class_there_is_no_result() -> None:
    """A measurement without a baseline of the class raises an error that names the class."""
    only = {name: t for name, t in MEASURED.timings.items() if not name.endswith("tf32")}
    with pytest.raises(ContenderError, match="no tf32 baseline"):
        speed_result(CHECKED, "tf32", replace(MEASURED, timings=only))
