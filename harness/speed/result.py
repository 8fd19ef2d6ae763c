"""Stored speed results: one line of JSON for each submission, problem and measurement.

Lines are added, never changed. The result of a submission is the newest line that has the hash of
the file's present content.
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
    """Device times of one submission or baseline.

    Attributes:
        median_ms: Median of the samples, in ms.
        interval_ms: 95 % confidence interval of the median, in ms.
        samples_ms: The time of each round that was not discarded, in the order of the rounds, in
            ms.
    """

    median_ms: float
    interval_ms: tuple[float, float]
    samples_ms: tuple[float, ...]


@dataclass(frozen=True)
class GpuReading:
    """The state of the GPU, read after one round of a measurement.

    Attributes:
        clock_mhz: Clock of the multiprocessors in MHz.
        power_watts: Power draw in watts.
        temperature_celsius: Temperature of the chip in degrees Celsius.
        reasons: The reasons why the clock was not higher.
        is_counted: Whether the round's times were kept. Times are discarded if heat or the power
            supply slowed the GPU down.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...]
    is_counted: bool


def milliseconds(timing: Timing) -> str:
    """Format a median and half its 95 % interval in ms; the half interval gets two digits.

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
    """The speed of one submission on one problem, as it is stored.

    Attributes:
        submission: Name of the submission.
        content_hash: SHA-256 of the submission's file.
        problem: Name of the problem.
        problem_hash: SHA-256 of the reference's file.
        precision: Precision class (fp32, tf32, bf16, fp16) that holds in all cases of the grid,
            which include the timed sizes.
        median_ms, interval_ms, samples_ms: As in `Timing`.
        speedup: Median time of the fastest baseline with comparable precision, divided by the
            submission's median time.
        speedup_interval: 95 % confidence interval of the speedup.
        baseline: Name of the baseline to which `speedup` refers.
        baselines: Times of all baselines of the same measurement, by name, such as "eager tf32".
        floor_ms: Lower bound of any kernel's time in ms. It is the time for the bytes at the
            measured bandwidth, or for the operations at the measured fastest rate, whichever is
            longer.
        bytes: Bytes to move if every input and weight is read once and the output is written once.
        flops: Floating-point operations: two for each product that is summed into an output
            element; 0 if unknown.
        build_seconds: Seconds that the compilers took when the submission's extensions were built.
        findings: Suspicious facts about the times, one line each; empty if the result is trusted.
        rounds: Number of rounds whose times were kept.
        discarded: Number of rounds discarded because the GPU was throttled.
        device: Name of the GPU.
        driver, cuda, torch, cudnn: Versions of the GPU's driver, CUDA, torch and cuDNN.
        clocks_mhz: Median clock of the multiprocessors during the measurement, in MHz.
        power_watts, temperature_celsius: Medians of power draw (W) and temperature (degrees
            Celsius) during the measurement.
        bandwidth_gbs: Measured bandwidth of a large copy in device memory, bytes read plus written,
            in 10^9 bytes a second.
        harness: Version of the harness.
        measured_at: Time of the measurement, in UTC and ISO 8601.
        looks: State of the GPU after each round, in order; empty in older results, which lack
            this field.
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
        """The submission's times, without the baselines'."""
        return Timing(self.median_ms, self.interval_ms, self.samples_ms)

    @property
    def floor_fraction(self) -> float:
        """`floor_ms` divided by `median_ms`; 1 is as fast as possible."""
        return self.floor_ms / self.median_ms

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str) -> SpeedResult:
        """Return the result that `to_json` wrote as `text`.

        Raises:
            ValueError: The text has another schema version or is not a speed result.
        """
        return codec.decode_of_schema(text, cls, SCHEMA, "speed result", "measure it again")


def why_not_comparable(first: SpeedResult, second: SpeedResult) -> str | None:
    """Return why times of two results cannot be compared, or None if the same conditions hold."""
    for name in _COMPARABLE:
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine != theirs:
            return f"{name} is {mine} in one and {theirs} in the other"
    return None


def append(result: SpeedResult, folder: Path) -> Path:
    """Append a result to the file of its problem in a folder, and return the file's path.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / f"{result.problem}.jsonl"
    append_line(path, result.to_json())
    return path


def read(folder: Path, problem: str) -> Iterator[SpeedResult]:
    """Yield a problem's results in a folder, oldest first; skip lines of other schema versions."""
    path = folder / f"{problem}.jsonl"
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield SpeedResult.from_json(line)
        except ValueError:
            continue


def of_problems(folder: Path, problems: Iterable[str]) -> list[SpeedResult]:
    """Return the results of several problems in a folder: sorted by problem, then oldest first."""
    return [result for problem in sorted(problems) for result in read(folder, problem)]
