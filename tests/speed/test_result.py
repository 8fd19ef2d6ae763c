"""The stored form of speed results, and which results may be compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.speed import result as results
from harness.speed.result import SpeedResult, Timing, why_not_comparable

RESULT = SpeedResult(
    submission="mine",
    content_hash="a" * 64,
    problem="conv_transpose1d",
    problem_hash="b" * 64,
    precision="fp32",
    median_ms=2.0,
    interval_ms=(1.9, 2.1),
    samples_ms=(1.9, 2.0, 2.1),
    speedup=1.5,
    speedup_interval=(1.4, 1.6),
    baseline="eager fp32",
    baselines={"eager fp32": Timing(3.0, (2.9, 3.1), (2.9, 3.0, 3.1))},
    floor_ms=1.0,
    bytes=10,
    flops=20,
    build_seconds=12.5,
    findings=(),
    rounds=3,
    discarded=0,
    device="NVIDIA H200",
    driver="580",
    cuda="13.0",
    torch="2.11.0",
    cudnn="91900",
    clocks_mhz=1980.0,
    power_watts=500.0,
    temperature_celsius=50.0,
    bandwidth_gbs=4200.0,
    harness="0.1.0",
    measured_at="2026-11-21T12:00:00+00:00",
)


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    """Speed results are read as they were stored, for one problem and oldest first."""
    later = replace(RESULT, median_ms=1.0)
    for each in (RESULT, later):
        results.append(each, tmp_path / "results")
    assert list(results.read(tmp_path / "results", "conv_transpose1d")) == [RESULT, later]
    assert list(results.read(tmp_path / "results", "another")) == []


def test_lines_that_are_no_results_are_passed_over(tmp_path: Path) -> None:
    """Lines of the store that are not speed results of this version are skipped."""
    path = results.append(RESULT, tmp_path)
    with path.open("a") as file:
        file.write('{"schema": 99}\nhalf a li')
    assert list(results.read(tmp_path, "conv_transpose1d")) == [RESULT]


def test_results_from_before_looks_were_kept_are_read() -> None:
    """A speed result without `looks` (states of the GPU), from an older version, can be read."""
    data = json.loads(RESULT.to_json())
    del data["looks"]
    assert SpeedResult.from_json(json.dumps(data)) == RESULT


@pytest.mark.parametrize(
    ("field", "value"),
    [("device", "NVIDIA H100"), ("torch", "2.13.0"), ("driver", "590"), ("problem_hash", "c")],
)
def test_times_of_other_conditions_are_not_compared(field: str, value: str) -> None:
    """Speed results under different conditions are not compared; a reason names the difference."""
    other = replace(RESULT, **{field: value})  # type: ignore[arg-type]
    reason = why_not_comparable(RESULT, other)
    assert reason is not None
    assert field in reason
    assert value in reason


def test_another_submission_measured_alike_is_compared() -> None:
    """Two submissions that were measured alike are compared, whatever their names and contents."""
    other = replace(RESULT, submission="theirs", content_hash="d" * 64, median_ms=9.0)
    assert why_not_comparable(RESULT, other) is None
