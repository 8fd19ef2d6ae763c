"""The tests that pytest runs for each submission; collection.py generates them."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from harness.engines.suite import PendingEvaluation
from harness.pytest_plugin.speeds import (
    SUBMISSION,
    DeviceClock,
    NotTimed,
    SpeedFailure,
    SpeedOutcome,
)
from harness.system.escape import one_line


def test_builds(evaluation: PendingEvaluation) -> None:
    """The submission can be imported, and each extension that the import loads can be compiled."""
    problem = evaluation.wait_until_imported()
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def test_matches_reference(evaluation: PendingEvaluation, case: str) -> None:
    """Each output of a submission in one case equals the reference's within its error bound."""
    report = evaluation.wait_for_case(case)
    if report.verdict == "declined":
        pytest.skip(one_line(f"declined: {report.message}"))
    if report.verdict == "not run":
        whole = evaluation.report()
        if whole.verdict == "unsupported":
            # Too many cases were left out to say anything about the submission.
            pytest.fail(one_line(whole.message), pytrace=False)
        pytest.skip(one_line(report.message))
    if report.verdict != "passed":
        pytest.fail(evaluation.explain(case), pytrace=False)


def test_search(evaluation: PendingEvaluation) -> None:
    """A search for failures at other sizes, made only if all cases are right, finds none."""
    found = [case for case in evaluation.report().cases if case.label == "search"]
    if found:
        pytest.fail(evaluation.explain(found[0].id), pytrace=False)


def test_speed(
    outcome: SpeedOutcome, contender: str, device_clock: DeviceClock, benchmark: BenchmarkFixture
) -> None:
    """The submission, or a baseline, can be timed on the GPU; pytest-benchmark shows the times.

    The sizes are those of the reference's file. Submission and baselines are timed in the same
    rounds.
    """
    try:
        timing = outcome.timing(contender)
    except NotTimed as reason:
        pytest.skip(one_line(str(reason)))
    except SpeedFailure as reason:
        pytest.fail(one_line(str(reason)), pytrace=False)
    if timing is None:
        pytest.skip("this baseline was not measured; the reason is printed above")
    result = outcome.result
    # Name the row in pytest-benchmark's table; its default is the test's name.
    benchmark.name = result.submission if result and contender == SUBMISSION else contender
    samples = iter(timing.samples_ms)
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: device_clock.advance(next(samples)), rounds=len(timing.samples_ms)
    )
    if result is None or contender != SUBMISSION:
        return
    benchmark.extra_info.update(
        device=result.device,
        precision=result.precision,
        speedup=result.speedup,
        baseline=result.baseline,
        bytes=result.bytes,
        flops=result.flops,
        floor_fraction=result.floor_fraction,
        samples_ms=list(result.samples_ms),
    )
    if result.findings:
        pytest.fail(one_line("; ".join(result.findings)), pytrace=False)
