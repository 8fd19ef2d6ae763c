"""What one run on a GPU tells of its contenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.speed.result import Look, Timing


@dataclass(frozen=True)
class Conditions:
    """The machine, and how it was while it measured; fields as in `SpeedResult`."""

    device: str
    driver: str
    cuda: str
    torch: str
    cudnn: str
    clocks_mhz: float
    power_watts: float
    temperature_celsius: float
    bandwidth_gbs: float


@dataclass(frozen=True)
class Measurement:
    """Contenders that were timed together, in random order in every round.

    Attributes:
        timings: By the contender's name; samples of one round stand at the same position.
        findings: What is suspicious about a contender's times or outputs, by its name.
        conditions: Of the run.
        floor_ms, bytes, flops: As in `SpeedResult`.
        discarded: Rounds thrown away because the GPU was throttled.
        measured_at: UTC, ISO 8601.
        left_out: Baselines that could not be timed, each with the reason, in a line.
        looks: As in `SpeedResult`.
    """

    timings: Mapping[str, Timing]
    findings: Mapping[str, tuple[str, ...]]
    conditions: Conditions
    floor_ms: float
    bytes: int
    flops: int
    discarded: int
    measured_at: str
    looks: tuple[Look, ...] = ()
    left_out: tuple[str, ...] = ()
