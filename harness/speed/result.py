"""A measured speed as it is kept: one JSON line for each submission, problem and run.

Lines are added, never changed: the newest that was made of a file's very content counts.
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
"""Of the JSON form.

1: the first.
"""

_COMPARABLE = ("device", "driver", "torch", "cudnn", "problem", "problem_hash", "schema")


@dataclass(frozen=True)
class Timing:
    """Device times of one contender.

    Attributes:
        median_ms: Of the samples.
        interval_ms: Its 95 % confidence interval.
        samples_ms: Every sample that counts, in the order of the rounds.
    """

    median_ms: float
    interval_ms: tuple[float, float]
    samples_ms: tuple[float, ...]


@dataclass(frozen=True)
class Look:
    """How the GPU was after one round.

    Attributes:
        clock_mhz: Of the multiprocessors.
        power_watts: Drawn.
        temperature_celsius: Of the chip.
        reasons: What kept the clock from being higher.
        is_counted: Whether the round's samples were kept: not where heat or the power supply had
            slowed it down.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    reasons: tuple[str, ...]
    is_counted: bool


def milliseconds(timing: Timing) -> str:
    """A median with half its 95 % interval, in two digits of the latter.

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
        submission: Its name.
        content_hash: SHA-256 of its file.
        problem: The problem's name.
        problem_hash: SHA-256 of the reference's file.
        precision: The submission's class over the whole grid, the timed shape included.
        median_ms, interval_ms, samples_ms: As in `Timing`.
        speedup: The median of the fastest baseline of its own class over the submission's.
        speedup_interval: Its 95 % confidence interval.
        baseline: Which one that is.
        baselines: All of them by name, such as "eager tf32"; measured in the same run.
        floor_ms: What no kernel can beat: bytes at the measured bandwidth of copying, or operations
            at the measured rate of the fastest arithmetic, whichever takes longer.
        bytes: Of reading every input and weight once and writing the output once.
        flops: Floating-point operations of the terms that exist.
        build_seconds: Of compiling its extensions, when that was done.
        findings: What is suspicious about the times, one line each; empty for a result to trust.
        rounds: Samples of each contender.
        discarded: Rounds thrown away because the GPU was throttled.
        device: The GPU's name.
        driver, cuda, torch, cudnn: Versions.
        clocks_mhz: Median clock of the multiprocessors while measuring.
        power_watts, temperature_celsius: Medians while measuring.
        bandwidth_gbs: Of a large copy, bytes read plus written, in 10^9 a second.
        harness: Version.
        measured_at: UTC, ISO 8601.
        looks: At the GPU, one after each round, in their order; none in results from before they
            were kept.
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
    looks: tuple[Look, ...] = ()
    schema: int = field(default=SCHEMA)

    @property
    def timing(self) -> Timing:
        """The submission's own."""
        return Timing(self.median_ms, self.interval_ms, self.samples_ms)

    @property
    def floor_fraction(self) -> float:
        """The floor over the median: 1 is as fast as can be."""
        return self.floor_ms / self.median_ms

    def to_json(self) -> str:
        """One line of JSON."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str) -> SpeedResult:
        """Make a result from what `to_json` gave.

        Raises:
            ValueError: It is of another schema, or no result at all.
        """
        return codec.decode_of_schema(text, cls, SCHEMA, "speed result", "measure it again")


def why_not_comparable(first: SpeedResult, second: SpeedResult) -> str | None:
    """What keeps two results' times from being compared, or None: they were measured alike."""
    for name in _COMPARABLE:
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine != theirs:
            return f"{name} is {mine} in one and {theirs} in the other"
    return None


def append(result: SpeedResult, folder: Path) -> Path:
    """Add a result to those of its problem; answers the file.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / f"{result.problem}.jsonl"
    append_line(path, result.to_json())
    return path


def read(folder: Path, problem: str) -> Iterator[SpeedResult]:
    """The results of a problem, the oldest first; lines of another schema are left out."""
    path = folder / f"{problem}.jsonl"
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield SpeedResult.from_json(line)
        except ValueError:
            continue


def of_problems(folder: Path, problems: Iterable[str]) -> list[SpeedResult]:
    """The results of several problems, as `read` gives them."""
    return [result for problem in sorted(problems) for result in read(folder, problem)]
