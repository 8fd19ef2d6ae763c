"""The reward: one number for a program that learns from scores, and the facts behind it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.comparison import Precision
from harness.records.report import Report
from harness.speed.result import SpeedResult


@dataclass(frozen=True)
class Reward:
    """The score of a submission, and the facts that it comes from.

    Attributes:
        value: 0 if the submission is wrong. 1 if it is right, and no speed without findings was
            measured. Otherwise the lower end of the speedup's 95 % interval, so that noise is not
            rewarded.
        is_right: True if none of the cases that ran is wrong.
        precision: The most precise class (fp32, tf32, ...) whose error bound held in every case;
            None if unknown.
        speedup: Speedup over the fastest baseline with comparable precision; None if it was not
            measured.
        speedup_interval: 95 % confidence interval of the speedup.
        findings: Findings of the sanitizers and integrity checks, and suspicious facts about the
            times, without duplicates.
    """

    value: float
    is_right: bool
    precision: Precision | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    findings: tuple[str, ...] = ()


def reward(report: Report, speed: SpeedResult | None = None) -> Reward:
    """Return the reward of a submission from its report and, if measured, its speed.

    Args:
        report: The report of the submission's check.
        speed: The submission's measured speed, or None if it was not timed.

    Raises:
        ValueError: The speed was measured for another content of the submission or the reference.
    """
    found = [finding.message for case in report.cases for finding in case.findings]
    if speed is None:
        value = 1.0 if report.is_right else 0.0
        return Reward(value, report.is_right, report.precision, findings=_once(found))
    of_report = (report.content_hash, report.problem_hash)
    if (speed.content_hash, speed.problem_hash) != of_report:
        raise ValueError(
            "the speed was measured for another version than the report's: "
            f"{report.submission} on {report.problem}; measure it again"
        )
    # A speed with findings is not trusted, so it counts as not measured.
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
