"""The result of one speed measurement on a GPU, with all submissions and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.speed.result import GpuReading, Timing


@dataclass(frozen=True)
class Conditions:
    """The machine and its state during a measurement; the fields are those of `SpeedResult`."""

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
    """Times of submissions and baselines that were timed together, in random order in each round.

    Attributes:
        timings: Times by the name of the submission or baseline. Samples of one round have the same
            index.
        findings: Suspicious facts about a submission's times or outputs, one line each, by its
            name.
        conditions: The machine and its state during the measurement.
        floor_ms, bytes, flops: As in `SpeedResult`.
        discarded: Number of rounds discarded because the GPU was throttled.
        measured_at: Time of the measurement, in UTC and ISO 8601.
        looks: As in `SpeedResult`.
        left_out: For each baseline that could not be timed, one line with the reason.
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
