"""The speed measurements of a pytest session: their plans and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.engines.evaluator import EvaluationError
from harness.engines.suite import PendingEvaluation
from harness.evaluate import Request
from harness.problems.problem import Problem
from harness.records.report import Report
from harness.speed import result as results
from harness.speed.contender import ContenderError
from harness.speed.outcome import speed_result
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.speed.result import SpeedResult, Timing

Say = Callable[[str], None]

SUBMISSION = "submission"
"""Value of the test parameter `contender` that stands for the submission; others name baselines."""


class NotTimed(Exception):
    """A submission was not timed: it failed, or it has no precision class (fp32, tf32, ...)."""


class SpeedFailure(Exception):
    """A submission could not be timed, or a timed call was wrong."""


@dataclass(frozen=True)
class SpeedOutcome:
    """The speed result of a submission on a problem, or the reason why there is none."""

    result: SpeedResult | None
    reason: Exception | None = None

    def timing(self, contender: str) -> Timing | None:
        """Return the times of the submission or a baseline; None if the baseline was left out.

        Raises:
            NotTimed: The submission was not to be timed.
            SpeedFailure: The submission could not be timed.
        """
        if self.result is None:
            assert self.reason is not None  # noqa: S101 - one of the two is there
            raise self.reason
        if contender == SUBMISSION:
            return self.result.timing
        return self.result.baselines.get(contender)


class DeviceClock:
    """A clock that advances by device time; pytest-benchmark reads it as its timer.

    The wall clock of this process would also measure the pipe to the process that launches kernels.
    """

    def __init__(self) -> None:
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the sum of all advances, in seconds."""
        return self._seconds

    def advance(self, milliseconds: float) -> None:
        """Advance the clock by the device time of one call."""
        self._seconds += milliseconds / 1e3


class SpeedSession:
    """The speed results of a pytest session; each is measured and stored only once."""

    def __init__(self, folder: Path, seconds: float, say: Say) -> None:
        self._folder = folder
        self._seconds = seconds
        self._say = say
        self._outcomes: dict[tuple[Path, Path], SpeedOutcome] = {}

    def plan_of(self, request: Request, report: Report) -> SpeedPlan | None:
        """Return the plan to time a submission, or None if it is not to be timed.

        A submission is timed if its report is right and has a precision class (fp32, tf32, ...).
        """
        if not report.is_right or report.precision is None:
            return None
        return SpeedPlan(
            request=request,
            entries=(PlannedSubmission(report.submission, request.submission, report.precision),),
            seconds=self._seconds,
        )

    def outcome(self, evaluation: PendingEvaluation) -> SpeedOutcome:
        """Wait for the measurement that belongs to an evaluation, and return its outcome."""
        key = (evaluation.request.submission, evaluation.request.problem)
        if key not in self._outcomes:
            try:
                self._outcomes[key] = SpeedOutcome(self._measured(evaluation))
            except (NotTimed, SpeedFailure) as reason:
                self._outcomes[key] = SpeedOutcome(None, reason)
        return self._outcomes[key]

    def first_result(self, problem: Problem) -> SpeedResult | None:
        """Return the session's first speed result on a problem, or None if it has none."""
        measured = (o.result for (_, path), o in self._outcomes.items() if path == problem.path)
        return next(filter(None, measured), None)

    def _measured(self, evaluation: PendingEvaluation) -> SpeedResult:
        report = evaluation.report()
        try:
            measured = evaluation.measurement()
            if measured is None or report.precision is None:
                raise NotTimed(f"not timed: the verdict is {report.verdict}")
            for line in measured.left_out:
                self._say(line)
            result = speed_result(report, report.precision, measured)
        except (ContenderError, EvaluationError) as error:
            raise SpeedFailure(f"{evaluation.request.title}: {error}") from None
        results.append(result, self._folder)
        return result
