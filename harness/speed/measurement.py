"""The data of one measurement on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.speed.result import GpuReading, Timing


@dataclass(frozen=True)
class Conditions:
    """The machine and its state during the measurement; the fields are as in `SpeedResult`."""

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
        timings: Times by the contender's name. Samples of one round stand at the same position.
        findings: Suspicious facts about a contender's times or outputs, by its name.
        conditions: The machine and its state.
        floor_ms, bytes, flops: As in `SpeedResult`.
        discarded: Number of rounds discarded because the GPU was throttled.
        measured_at: UTC, ISO 8601.
        looks: As in `SpeedResult`.
        left_out: Baselines that could not be timed, one line each, with the reason.
    """

    timings: Mapping[str, Timing]
    findings: Mapping[str, tuple[str, ...]]
    conditions: Conditions
    floor_ms: float
    bytes: int
    flops: int
    discarded: int
    measured_at: str
    looks: tuple[GpuReading, ...] = ()
    left_out: tuple[str, ...] = ()
