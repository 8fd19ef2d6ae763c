"""Stored speeds: one JSON line for each submission, problem and run.

Lines are added, never changed. The newest line for a file's exact content counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.records.comparison import Precision
from harness.system import codec
from harness.system.files import append_line

SCHEMA = 1
"""Version of the JSON form.

1: the first.
"""

# Two results' times may be compared only if these fields are equal. The clock is not among them: it
# varies within a run, and hits a run's contenders alike.
_COMPARABLE = ("device", "driver", "torch", "cudnn", "problem", "problem_hash", "schema")


@dataclass(frozen=True)
class Timing:
    """Device times of one contender.

    Attributes:
        median_ms: Median of the samples, in ms.
        interval_ms: 95 % confidence interval of the median, in ms.
        samples_ms: All samples of rounds that count, in the order of the rounds, in ms.
    """

    median_ms: float
    interval_ms: tuple[float, float]
    samples_ms: tuple[float, ...]


@dataclass(frozen=True)
class GpuReading:
    """The state of the GPU after one round.

    Attributes:
        clock_mhz: Clock of the multiprocessors.
        power_watts: Power draw.
        temperature_celsius: Temperature of the chip.
        reasons: The reasons why the clock was not higher.
        is_counted: Whether the round's samples were kept. They are discarded if heat or the power
            supply slowed the GPU down.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...]
    is_counted: bool


def milliseconds(timing: Timing) -> str:
    """Format a median with half its 95 % interval, to two digits of the latter.

    >>> milliseconds(Timing(4.2371, (4.2255, 4.2501), ()))
    '4.237 ± 0.013'
    """
    low, high = timing.interval_ms
    half = max(high - timing.median_ms, timing.median_ms - low)
    if not half > 0:
        return f"{timing.median_ms:.4g}"
    places = min(max(1 - math.floor(math.log10(half)), 0), 6)
    return f"{timing.median_ms:.{places}f} ± {half:.{places}f}"


@dataclass(frozen=True)
class SpeedResult:
    """One submission's speed on one problem.

    Attributes:
        submission: Name of the submission.
        content_hash: SHA-256 of its file.
        problem: Name of the problem.
        problem_hash: SHA-256 of the reference's file.
        precision: Precision class of the submission over the whole grid, including the timed shape.
        median_ms, interval_ms, samples_ms: As in `Timing`.
        speedup: Median of the fastest baseline of its own class over the submission's median.
        speedup_interval: 95 % confidence interval of the speedup.
        baseline: Name of that fastest baseline.
        baselines: All baselines by name, such as "eager tf32", measured in the same run.
        floor_ms: Time that no kernel can beat: the bytes at the measured bandwidth of copying, or
            the operations at the measured rate of the fastest arithmetic, whichever takes longer.
        bytes: Bytes of reading every input and weight once and writing the output once.
        flops: Floating-point operations of the terms that exist.
        build_seconds: Time that compiling its extensions took when they were built.
        findings: Suspicious facts about the times, one line each; empty if the result is trusted.
        rounds: Number of samples of each contender.
        discarded: Number of rounds discarded because the GPU was throttled.
        device: Name of the GPU.
        driver, cuda, torch, cudnn: Versions.
        clocks_mhz: Median clock of the multiprocessors during the measurement.
        power_watts, temperature_celsius: Medians during the measurement.
        bandwidth_gbs: Bandwidth of a large copy, bytes read plus written, in 10^9 bytes a second.
        harness: Version of the harness.
        measured_at: UTC, ISO 8601.
        looks: State of the GPU after each round, in order; empty in results from before looks were
            stored.
    """

    submission: str
    content_hash: str
    problem: str
    problem_hash: str
    precision: Precision
    median_ms: float
    interval_ms: tuple[float, float]
    samples_ms: tuple[float, ...]
    speedup: float
    speedup_interval: tuple[float, float]
    baseline: str
    baselines: Mapping[str, Timing]
    floor_ms: float
    bytes: int
    flops: int
    build_seconds: float
    findings: tuple[str, ...]
    rounds: int
    discarded: int
    device: str
    driver: str
    cuda: str
    torch: str
    cudnn: str
    clocks_mhz: float
    power_watts: float
    temperature_celsius: float
    bandwidth_gbs: float
    harness: str
    measured_at: str
    looks: tuple[GpuReading, ...] = ()
    schema: int = field(default=SCHEMA)

    @property
    def timing(self) -> Timing:
        """The submission's own times."""
        return Timing(self.median_ms, self.interval_ms, self.samples_ms)

    @property
    def floor_fraction(self) -> float:
        """The floor over the median; 1 is as fast as possible."""
        return self.floor_ms / self.median_ms

    def to_json(self) -> str:
        """Return one line of JSON."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str) -> SpeedResult:
        """Make a result from the output of `to_json`.

        Raises:
            ValueError: The text has another schema or is not a result.
        """
        return codec.decode_of_schema(text, cls, SCHEMA, "speed result", "measure it again")


def why_not_comparable(first: SpeedResult, second: SpeedResult) -> str | None:
    """Return why two results' times cannot be compared, or None if they were measured alike."""
    for name in _COMPARABLE:
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine != theirs:
            return f"{name} is {mine} in one and {theirs} in the other"
    return None


def append(result: SpeedResult, folder: Path) -> Path:
    """Append a result to the file of its problem, and return the file's path.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / f"{result.problem}.jsonl"
    append_line(path, result.to_json())
    return path


def read(folder: Path, problem: str) -> Iterator[SpeedResult]:
    """Yield the results of a problem, oldest first; skip lines of another schema."""
    path = folder / f"{problem}.jsonl"
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield SpeedResult.from_json(line)
        except ValueError:
            continue


def of_problems(folder: Path, problems: Iterable[str]) -> list[SpeedResult]:
    """Return the results of several problems, in the order of `read`."""
    return [result for problem in sorted(problems) for result in read(folder, problem)]
