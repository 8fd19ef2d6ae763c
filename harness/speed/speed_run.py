"""One speed measurement: warm-up, rounds of timed calls, and checks of the timed outputs."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import torch
from torch import Tensor

from harness.compiler.flags import torch_version
from harness.gpu.state import Monitor
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.records.comparison import Precision
from harness.records.findings import failing_findings
from harness.speed.contender import Contender, ContenderError, Sample
from harness.speed.floor import LeastWork, Rates
from harness.speed.measurement import Conditions, Measurement
from harness.speed.plan import SpeedPlan
from harness.speed.result import Timing
from harness.speed.rounds import Samples, Stage, run_rounds, warm_up
from harness.speed.statistics import median_of, ratio_of
from harness.speed.verify import Checksum, FullCheck
from harness.worker.supervisor import WorkerFailure

# The least rounds, and the rounds between two looks at the intervals; so the first look is after 15
# rounds. Each look costs a bootstrap for every contender.
_LEAST_ROUNDS = 11
_LOOK_EVERY = 5

# This share of the calls that count is compared in full. They are drawn at random after the call,
# so that a submission cannot know them.
_FULL_SHARE = 0.02

# With a cold cache, and against the best bandwidth of a copy, no honest time falls below this share
# of the floor.
_BELOW_FLOOR = 0.9


@dataclass
class _Findings:
    """Suspicious facts by name of the submission, each line only once."""

    by_name: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, line: str) -> None:
        known = self.by_name.setdefault(name, [])
        if line not in known:
            known.append(line)


class SpeedRun:
    """One speed measurement of submissions and baselines on a GPU."""

    def __init__(
        self,
        plan: SpeedPlan,
        problem: Problem,
        case: Case,
        weights: Mapping[str, Tensor],
        stage: Stage,
        output_shape: tuple[int, ...],
        rates: Rates,
        work: LeastWork,
        monitor: Monitor,
    ) -> None:
        self._plan = plan
        self._problem = problem
        self._stage = stage
        self._rates = rates
        self._work = work
        self._monitor = monitor
        self._output_shape = output_shape
        self._full = FullCheck(problem, case, weights, torch.device("cuda"))
        self._precision = {entry.name: entry.precision for entry in plan.entries}
        self._checksums = _checksums(plan, problem, case, weights, output_shape)
        self._findings = _Findings()
        self._chance = secrets.SystemRandom()
        self._is_checked_in_full: set[str] = set()

    def run(
        self,
        entrants: Sequence[Contender],
        baselines: Sequence[Contender],
        left_out: Sequence[str],
    ) -> Measurement:
        """Warm up all contenders, time them in rounds, and return the measurement.

        `left_out` has a line for each baseline that could not be constructed.
        """
        seconds = self._plan.request.deadlines.first_call
        for contender in entrants:
            warm_up(self._stage, contender, seconds, self._verify)
        contenders = list(entrants)
        lines = list(left_out)
        for contender in baselines:
            try:
                warm_up(self._stage, contender, seconds, self._verify)
            except (ContenderError, WorkerFailure) as error:
                lines.append(f"{contender.name} is not measured: {error}")
            else:
                contenders.append(contender)
        samples = run_rounds(
            self._stage,
            self._problem,
            contenders,
            self._monitor,
            self._verify,
            self._is_enough,
            self._plan.seconds,
        )
        if not samples.counted:
            raise ContenderError("the GPU was throttled in every round; let it cool down")
        for contender in entrants:
            self._compare_with_floor(contender.name, samples.times[contender.name])
        return self._measurement(samples, lines)

    def _verify(self, contender: Contender, sample: Sample) -> None:
        """Check a timed call of a submission: its output, its time, and the integrity findings.

        A wrong output raises ContenderError. Calls of baselines are not checked.
        """
        name, output = contender.name, sample.output
        precision = self._precision.get(name)
        if precision is None:
            return
        for found in failing_findings(sample.findings):
            self._findings.add(name, found.message)
        if (tuple(output.shape), output.dtype) != (self._output_shape, torch.float32):
            raise ContenderError(
                f"{name}: a timed call's output is {list(output.shape)} of {output.dtype}, "
                f"not {list(self._output_shape)} of torch.float32"
            )
        if not sample.milliseconds > 0:
            raise ContenderError(f"{name}: a timed call did nothing on the device")
        checksum = self._checksums.get(precision)
        if checksum is not None:
            error = checksum.error(self._stage.inputs[0], output)
            if not error <= 1:
                raise ContenderError(f"{name}: a timed call's output is wrong, by its checksum")
        first = name not in self._is_checked_in_full
        if first or checksum is None or self._chance.random() < _FULL_SHARE:
            self._is_checked_in_full.add(name)
            comparison = self._full.comparison(self._stage.inputs, output)
            if comparison.mismatch is not None:
                raise ContenderError(
                    f"{name}: a timed call's output is wrong: {comparison.mismatch.message}"
                )
            torch.cuda.empty_cache()

    def _is_enough(self, samples: Samples) -> bool:
        rounds = len(samples.counted)
        if rounds < _LEAST_ROUNDS or rounds % _LOOK_EVERY:
            return False
        # The ratios decide, not the times: drift that hits all contenders alike cancels in a ratio.
        first = samples.times[self._plan.entries[0].name]
        others = [
            times for name, times in samples.times.items() if name != self._plan.entries[0].name
        ]
        if not others:
            return median_of(first).relative_width < self._plan.width
        return all(ratio_of(other, first).relative_width < self._plan.width for other in others)

    def _compare_with_floor(self, name: str, times: Sequence[float]) -> None:
        median, floor = statistics.median(times), self._work.floor_ms(self._rates)
        if median < _BELOW_FLOOR * floor:
            self._findings.add(
                name,
                f"{median:.3f} ms is less than the {floor:.3f} ms that moving the bytes "
                "or doing the arithmetic takes",
            )

    def _measurement(self, samples: Samples, left_out: Sequence[str]) -> Measurement:
        counted = samples.counted
        names = torch.cuda.get_device_name(), torch.version.cuda or ""
        return Measurement(
            timings={name: timing_of(times) for name, times in samples.times.items()},
            findings={name: tuple(lines) for name, lines in self._findings.by_name.items()},
            conditions=Conditions(
                device=names[0],
                driver=self._monitor.driver(),
                cuda=names[1],
                torch=torch_version(),
                cudnn=str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
                clocks_mhz=statistics.median(look.clock_mhz for look in counted),
                power_watts=statistics.median(look.power_watts for look in counted),
                temperature_celsius=statistics.median(look.temperature_celsius for look in counted),
                bandwidth_gbs=self._rates.bytes_per_second / 1e9,
            ),
            floor_ms=self._work.floor_ms(self._rates),
            bytes=self._work.bytes,
            flops=self._work.flops,
            discarded=samples.discarded,
            looks=tuple(samples.looks),
            left_out=tuple(left_out),
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _checksums(
    plan: SpeedPlan,
    problem: Problem,
    case: Case,
    weights: Mapping[str, Tensor],
    output_shape: Sequence[int],
) -> Mapping[Precision, Checksum]:
    """Return a checksum for each precision class in the plan; {} if `Model` is not linear."""
    device = torch.device("cuda")
    linear_map = problem.family.linear_map(case, weights, device)
    if linear_map is None:
        return {}
    classes = {entry.precision for entry in plan.entries}
    return {each: Checksum(linear_map, output_shape, each, device) for each in classes}


def timing_of(samples: Sequence[float]) -> Timing:
    """Return samples in ms with their median and its 95 % confidence interval."""
    median = median_of(samples)
    return Timing(median.value, (median.low, median.high), tuple(samples))
