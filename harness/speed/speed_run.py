"""The course of one measurement: warm-up, rounds, and what tells whether to believe them."""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import torch
from torch import Tensor

from harness.compiler.flags import torch_version
from harness.gpu.state import Monitor
from harness.judging.own_kernels import judge_launched
from harness.problems.grid import Case
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

_LEAST_ROUNDS = 11
_LOOK_EVERY = 5

# Of the calls that count, this share is compared in full; drawn at random.
_FULL_SHARE = 0.02

# A batch without pauses, for the trusted clock: long enough that a message's way does not count.
_BATCH_SECONDS = 0.25
# Calls in a row take more power than calls with pauses, and the GPU may lower its clock: a kernel
# that keeps an H200's tensor cores busy has been seen to take 13 % longer.
_CLAIM_TOLERANCE = 0.2
_MESSAGE_SECONDS = 2e-3
# An answer takes as long as any other contender's: the copy of the output and the message's way. On
# an H200 the medians of honest contenders of one measurement lay within 0.25 ms of each other.
_ANSWER_MS = 0.3

# Work that ends so much after the call's own stream, call after call, is not on that stream. The
# host notices the end of any call some tens of microseconds late, of long ones more: what the
# baselines show, which work on one stream, does not count.
_LATE_MS = 0.1
_LATE_SHARE = 0.01

# A cold cache and a copy's best bandwidth leave no room for times below this part of the floor.
_BELOW_FLOOR = 0.9


@dataclass
class _Findings:
    """What was noticed, each thing once."""

    by_name: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, line: str) -> None:
        known = self.by_name.setdefault(name, [])
        if line not in known:
            known.append(line)


class SpeedRun:
    """One measurement."""

    def __init__(
        self,
        plan: SpeedPlan,
        case: Case,
        weights: Mapping[str, Tensor],
        stage: Stage,
        rates: Rates,
        work: LeastWork,
        monitor: Monitor,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._rates = rates
        self._work = work
        self._monitor = monitor
        self._full = FullCheck(plan.problem, case, weights, stage.output.device)
        self._precision = {entry.name: entry.precision for entry in plan.entries}
        self._checksums = _checksums(plan, case, weights, stage.output)
        self._need = plan.problem.family.need(case)
        self._findings = _Findings()
        self._chance = secrets.SystemRandom()
        self._is_checked_in_full: set[str] = set()

    def run(
        self,
        entrants: Sequence[Contender],
        baselines: Sequence[Contender],
        say: Callable[[str], None],
    ) -> Measurement:
        """Warm up, rounds, and the trusted clock."""
        seconds = self._plan.request.deadlines.first_call
        for contender in entrants:
            warm_up(self._stage, contender, seconds, self._verify)
        contenders = list(entrants)
        for contender in baselines:
            try:
                warm_up(self._stage, contender, seconds, self._verify)
            except (ContenderError, WorkerFailure) as error:
                say(f"{contender.name} is left out: {error}")
            else:
                contenders.append(contender)
        samples = run_rounds(
            self._stage,
            self._plan.problem,
            contenders,
            self._monitor,
            self._verify,
            self._is_enough,
            self._plan.seconds,
        )
        if not samples.states:
            raise ContenderError("the GPU was throttled in every round; let it cool down")
        trusted = [contender.name for contender in contenders[len(entrants) :]]
        idles = [samples.idles[name] for name in trusted]
        usual = statistics.median(itertools.chain(*idles)) if idles else 0.0
        # Without baselines, as the gate measures, the versions are held against each other.
        least = min(_beside(samples, contender.name) for contender in entrants)
        beside = max((_beside(samples, name) for name in trusted), default=least)
        for contender in entrants:
            self._hold_clock_against(contender, samples.times[contender.name])
            self._hold_answers_against(contender.name, samples, beside)
            self._compare_with_floor(contender.name, samples.times[contender.name])
            self._look_for_late_work(contender.name, samples, usual)
        return self._measurement(samples)

    def _verify(self, contender: Contender, sample: Sample) -> None:
        """Check the output that lies in shared memory, and whose kernels made it."""
        name = contender.name
        precision = self._precision.get(name)
        if precision is None:
            return
        if sample.launched is not None:
            judged = judge_launched(self._need, sample.launched, contender.built)
            for found in judged.findings:
                self._findings.add(name, found.message)
        for found in failing_findings(sample.changed):
            self._findings.add(name, found.message)
        expected = {
            "type": "torch.Tensor",
            "device": "cuda",
            "shape": list(self._stage.output.shape),
            "dtype": "float32",
        }
        for key, value in expected.items():
            if sample.output.get(key) != value:
                raise ContenderError(
                    f"{name}: the output's {key} is {sample.output.get(key)}, not {value}"
                )
        if self._stage.is_changed():
            raise ContenderError(f"{name}: a timed call changed its input in place")
        checksum = self._checksums.get(precision)
        if checksum is not None:
            error = checksum.error(self._stage.inputs[0], self._stage.output)
            if not error <= 1:
                raise ContenderError(f"{name}: a timed call's output is wrong, by its checksum")
        first = name not in self._is_checked_in_full
        if first or checksum is None or self._chance.random() < _FULL_SHARE:
            self._is_checked_in_full.add(name)
            comparison = self._full.comparison(self._stage.inputs, self._stage.output)
            if comparison.mismatch is not None:
                raise ContenderError(
                    f"{name}: a timed call's output is wrong: {comparison.mismatch.message}"
                )
            torch.cuda.empty_cache()

    def _is_enough(self, samples: Samples) -> bool:
        rounds = len(samples.states)
        if rounds < _LEAST_ROUNDS or rounds % _LOOK_EVERY:
            return False
        first = samples.times[self._plan.entries[0].name]
        others = [
            times for name, times in samples.times.items() if name != self._plan.entries[0].name
        ]
        if not others:
            return median_of(first).relative_width < self._plan.width
        return all(ratio_of(other, first).relative_width < self._plan.width for other in others)

    def _hold_clock_against(self, contender: Contender, times: Sequence[float]) -> None:
        """Time a batch from outside: the claims cannot be far below what it took."""
        median = statistics.median(times) / 1e3
        count = max(3, round(_BATCH_SECONDS / max(median, 1e-5)))
        self._stage.set()
        start = time.perf_counter()
        contender.repeat(self._stage.places, count)
        each = (time.perf_counter() - start - _MESSAGE_SECONDS) / count
        if median < each * (1 - _CLAIM_TOLERANCE):
            self._findings.add(
                contender.name,
                f"its worker tells of {1e3 * median:.3f} ms a call, but {count} calls in a row "
                f"took {1e3 * each:.3f} ms each by this side's clock",
            )

    def _hold_answers_against(self, name: str, samples: Samples, usual: float) -> None:
        """Compare what an answer takes beside the call with what it takes the baselines.

        Each of these calls' outputs was looked at, so that none of them can be left out.
        """
        told = statistics.median(samples.times[name])
        more = _beside(samples, name) - usual
        if more > max(_ANSWER_MS, _CLAIM_TOLERANCE * told):
            self._findings.add(
                name,
                f"its worker tells of {told:.3f} ms a call, but its answers took {more:.3f} ms "
                "more beside that than others', by this side's clock",
            )

    def _compare_with_floor(self, name: str, times: Sequence[float]) -> None:
        median, floor = statistics.median(times), self._work.floor_ms(self._rates)
        if median < _BELOW_FLOOR * floor:
            self._findings.add(
                name,
                f"{median:.3f} ms is less than moving the bytes or doing the arithmetic takes, "
                f"{floor:.3f} ms",
            )

    def _look_for_late_work(self, name: str, samples: Samples, usual: float) -> None:
        late = statistics.median(samples.idles[name]) - usual
        if late > max(_LATE_MS, _LATE_SHARE * statistics.median(samples.times[name])):
            self._findings.add(
                name, f"the device was busy for {late:.3f} ms after the call's own stream was done"
            )

    def _measurement(self, samples: Samples) -> Measurement:
        states = samples.states
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
                clocks_mhz=statistics.median(state.clock_mhz for state in states),
                power_watts=statistics.median(state.power_watts for state in states),
                temperature_celsius=statistics.median(
                    state.temperature_celsius for state in states
                ),
                bandwidth_gbs=self._rates.bytes_per_second / 1e9,
            ),
            floor_ms=self._work.floor_ms(self._rates),
            bytes=self._work.bytes,
            flops=self._work.flops,
            discarded=samples.discarded,
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _checksums(
    plan: SpeedPlan, case: Case, weights: Mapping[str, Tensor], output: Tensor
) -> Mapping[Precision, Checksum]:
    """One for each class among the submissions; none where the reference is no linear map."""
    linear_map = plan.problem.family.linear_map(case, weights, output.device)
    if linear_map is None:
        return {}
    classes = {entry.precision for entry in plan.entries}
    return {each: Checksum(linear_map, output.shape, each, output.device) for each in classes}


def _beside(samples: Samples, name: str) -> float:
    """Milliseconds that an answer takes beside what it tells of."""
    pairs = zip(samples.waits[name], samples.times[name], strict=True)
    return statistics.median(waited - told for waited, told in pairs)


def timing_of(samples: Sequence[float]) -> Timing:
    """The median of samples, with its interval."""
    median = median_of(samples)
    return Timing(median.value, (median.low, median.high), tuple(samples))
