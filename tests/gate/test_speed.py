"""The gate's verdict on the speed of two right versions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.gate.before import Before
from harness.gate.evidence import Measured, Recorded, compare_counters
from harness.gate.plan import VersionPair
from harness.gate.run import GateOptions
from harness.gate.speed import by_counters, by_results, by_times
from harness.options import Options
from harness.problems.discovery import discover
from harness.problems.problem import load
from harness.requesting import Requests
from harness.simulator.counters.totals import Totals
from harness.speed import result as results
from harness.speed.measurement import Conditions, Measurement
from harness.speed.plan import SpeedPlan
from harness.speed.result import Timing
from tests.support import REFERENCE, SUBMISSIONS, report, speed_result, timing

BASE = Totals(1, 10_000, 320_000, 5000, 400, 1600, 0, 0, 0, 32, 1.0)
PASSED = report(verdict="passed", precision="fp32", versions={"nvcc": "13.0.88"}, counters=BASE)


def noisy(median: float, noise: float, seed: int, rounds: int = 200) -> tuple[float, ...]:
    """Return random times like those of a GPU: most are near `median`, and some far above it."""
    generator = np.random.default_rng(seed)
    return tuple(median * (1 + noise * generator.gamma(2.0, 1.0, rounds)))


@pytest.mark.parametrize(
    ("factor", "noise", "outcome"),
    [
        (1.02, 0.001, "slower"),
        (1 / 1.02, 0.001, "faster"),
        (1.0, 0.001, "same"),
        (1.003, 0.001, "same"),
        (1.01, 0.02, "ambiguous"),
        (1.02, 0.1, "ambiguous"),
    ],
)
def test_interval_of_the_ratio_decides(factor: float, noise: float, outcome: str) -> None:
    """The verdict is `ambiguous` if the interval of the ratio of times crosses the threshold.

    Otherwise, a version that is 2 % slower is detected.
    """
    change = by_times(noisy(4.0 * factor, noise, 1), noisy(4.0, noise, 2), 0.01)
    assert change.outcome == outcome, change.reason
    assert change.ratio is not None
    assert change.ratio.low <= factor <= change.ratio.high


def test_few_samples_decide_nothing() -> None:
    """Nine times of each version give an ambiguous verdict, whatever the ratio is."""
    change = by_times([8.0] * 9, [4.0] * 9, 0.01)
    assert change.outcome == "ambiguous"
    assert "9 samples" in change.reason


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        ({}, "same", "the deciding counters are unchanged"),
        ({"warp_instructions": 10_050}, "same", "+0.5 % warp instructions"),
        ({"warp_instructions": 10_200}, "slower", "+2.0 % warp instructions"),
        ({"sectors": 1500}, "faster", "-6.2 % sectors"),
        ({"sectors": 1500, "wavefronts": 90}, "ambiguous", "from none to some shared-memory"),
        ({"local_bytes": 8}, "slower", "from none to some local-memory bytes"),
        ({"flop": 9000, "registers": 255, "occupancy": 0.1}, "same", "are unchanged"),
    ],
)
def test_counters_decide_where_nothing_was_traded(
    changes: dict[str, int], outcome: str, reason: str
) -> None:
    """A version with a larger counter is slower, and one with a smaller counter is faster.

    If one counter grew and another one shrank, the verdict is ambiguous.
    """
    change = by_counters(replace(BASE, **changes), BASE, 0.01)
    assert change.outcome == outcome
    assert reason in change.reason


def test_growth_is_shown_where_counters_disagree() -> None:
    """If some counters grew and others shrank, the ratio shown is that of a counter that grew."""
    change = by_counters(replace(BASE, sectors=2000, warp_instructions=100), BASE, 0.01)
    assert change.outcome == "ambiguous"
    assert change.ratio
    assert change.ratio.value == 1.25


def test_counters_of_another_compiler_are_no_baseline() -> None:
    """Counters from another release of nvcc are not compared, because the compiler changes them."""
    pair = a_pair()
    other = replace(PASSED, versions={"nvcc": "12.9.1"})
    assert compare_counters(pair, PASSED, PASSED, 0.01).outcome == "same"
    change = compare_counters(pair, PASSED, other, 0.01)
    assert change.outcome == "missing"
    assert "nvcc 12.9.1 before, nvcc 13.0.88 now" in change.reason
    assert compare_counters(pair, PASSED, replace(PASSED, counters=None), 0.01).outcome == "missing"
    assert (
        compare_counters(pair, PASSED, replace(PASSED, problem_hash="ef"), 0.01).outcome
        == "missing"
    )


def test_results_are_compared_over_their_own_baselines() -> None:
    """Results are compared by speedup: a GPU that is 5 % slower for all makes no difference."""
    base = speed_result(median_ms=4.0)
    hot = speed_result(
        median_ms=4.2,
        baselines={name: timing(each.median_ms * 1.05) for name, each in base.baselines.items()},
    )
    assert by_results(hot, base, 0.01).outcome == "same"
    slower = by_results(speed_result(median_ms=4.1), base, 0.01)
    assert slower.outcome == "slower"
    assert math.isclose(slower.ratio.value if slower.ratio else 0, 1.025)


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"device": "NVIDIA A100"}, "missing", "device is NVIDIA A100 in one and NVIDIA H200"),
        ({"torch": "2.12"}, "missing", "torch is 2.12"),
        ({"baselines": {"eager tf32": timing(4.0)}}, "missing", "only one of them was measured"),
        ({"findings": ("faster than the floor",)}, "ambiguous", "faster than the floor"),
    ],
)
def test_results_that_may_not_be_compared(
    fields: dict[str, Any], outcome: str, reason: str
) -> None:
    """The gate does not compare results from different GPUs or releases of torch.

    It also does not compare results without a common baseline. If one of the two results is
    suspicious, the verdict is ambiguous.
    """
    change = by_results(speed_result(), speed_result(**fields), 0.01)
    assert change.outcome == outcome
    assert (
        reason in change.reason
        or reason in by_results(speed_result(**fields), speed_result(), 0.01).reason
    )


def a_pair(**fields: object) -> VersionPair:
    """Return a submission and its base, which has the given fields of `Before`."""
    problem = load(REFERENCE / "conv_transpose1d.py")
    return VersionPair("mine", problem, None, Before("ab", "cd", **fields))  # type: ignore[arg-type]


def test_newest_result_of_this_version_is_looked_up(tmp_path: Path) -> None:
    """The newest stored result of the new version's content is compared with the base's result.

    If no result is stored for that content, the reason says on which GPU to measure.
    """
    base = speed_result(content_hash="old")
    pair = a_pair(result=base)
    head = report(verdict="passed")
    evidence = Recorded(tmp_path)
    results.append(base, tmp_path)
    missing = evidence(pair, head, None, 0.01)
    assert missing.outcome == "missing"
    assert "measure it on NVIDIA H200" in missing.reason
    newest = "2026-11-22T01:00:00+00:00"
    results.append(speed_result(median_ms=4.0, measured_at=newest), tmp_path)
    results.append(speed_result(median_ms=8.0), tmp_path)
    assert evidence(pair, head, None, 0.01).outcome == "same"


def measurement(head: Timing, base: Timing, *of_head: str) -> Measurement:
    """Return one measurement of the times of a new version and its base.

    `of_head` are the findings about the new version.
    """
    conditions = Conditions("NVIDIA H200", "580", "13.0", "2.11", "9.19", 1980, 500, 50, 4300)
    timings = {"head": head, "base": base, "eager tf32": timing(4.24)}
    now = "2026-11-21T20:15:00+00:00"
    return Measurement(timings, {"head": of_head}, conditions, 1.0, 4 << 30, 1 << 38, 0, now)


def test_both_versions_are_timed_in_one_run(tmp_path: Path) -> None:
    """The gate times both versions in one measurement, with the options of the command line.

    The engine gets both files and the problem. A suspicious time of the new version is refused.
    """
    asked = []
    given = Options(step_seconds=7.0, readable=(tmp_path,), untrusted=True)
    options = GateOptions(Requests(given, "cuda", seed=1), 1, allow_new=False)
    answers = [
        measurement(timing(4.1), timing(4.0)),
        measurement(timing(2.0), timing(4.0), "below the floor"),
    ]

    def measure(plan: SpeedPlan) -> Measurement:
        asked.append(
            (plan.request.problem.name, {each.name: each.path.name for each in plan.entries})
        )
        assert plan.request == options.requests.request(Path("mine.py"), pair.problem.path)
        return answers[len(asked) - 1]

    (old,) = discover([SUBMISSIONS / "flat_index.py"]).submissions
    pair = replace(a_pair(submission=old), head=old)
    evidence = Measured(measure, options.requests.request, 10.0)
    base = replace(PASSED, path=str(old.path))
    slower = evidence(pair, PASSED, base, 0.01)
    assert (slower.outcome, slower.evidence) == ("slower", "times")
    assert asked == [("conv_transpose1d.py", {"head": "mine.py", "base": "flat_index.py"})]
    refused = evidence(pair, PASSED, base, 0.01)
    assert refused.outcome == "refused"
    assert "below the floor" in refused.reason
