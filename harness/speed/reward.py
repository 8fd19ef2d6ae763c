"""One number for a program that learns from scores, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.comparison import Precision
from harness.records.report import Report
from harness.speed.result import SpeedResult


@dataclass(frozen=True)
class Reward:
    """What most people want of a submission.

    Attributes:
        value: 0 where it is not right. Of what is right, the lower end of the speedup's 95 %
            interval, so that noise earns nothing; 1 where no speed to be trusted was measured.
        is_right: Whether nothing is wrong in any case that ran.
        precision: The tightest class that held in every case; None where that is not known.
        speedup: Over the fastest baseline of its own class; None where none was measured.
        speedup_interval: Its 95 % confidence interval.
        findings: What the sanitizers and the checks of whose work it is found, and what is
            suspicious about the times; each once.
    """

    value: float
    is_right: bool
    precision: Precision | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    findings: tuple[str, ...] = ()


def reward(report: Report, speed: SpeedResult | None = None) -> Reward:
    """The reward of a submission.

    Args:
        report: Of its check.
        speed: What was measured of it, where that was done.

    Raises:
        ValueError: The speed is that of other contents, or on another problem.
    """
    found = [finding.message for case in report.cases for finding in case.findings]
    if speed is None:
        value = 1.0 if report.is_right else 0.0
        return Reward(value, report.is_right, report.precision, findings=_once(found))
    of_report = (report.content_hash, report.problem_hash)
    if (speed.content_hash, speed.problem_hash) != of_report:
        raise ValueError(
            f"the speed is not of what was checked: {report.submission} on {report.problem}; "
            "measure it again"
        )
    # Times that are not to be believed are no speed.
    value = 1.0 if speed.findings else speed.speedup_interval[0]
    return Reward(
        value if report.is_right else 0.0,
        report.is_right,
        report.precision,
        speed.speedup,
        speed.speedup_interval,
        _once([*found, *speed.findings]),
    )


def _once(lines: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))
