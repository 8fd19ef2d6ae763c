"""The evaluations of a pytest session, which run concurrently while tests wait for their results.

A submission that passed is timed as soon as the engine has a GPU for it alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from harness.engines.engine import Engine
from harness.engines.evaluator import EvaluationError
from harness.engines.finished import ReportCache
from harness.evaluate import Progress, Request
from harness.records import store
from harness.records.render import case_lines, headline, rest_of_headline
from harness.records.report import CaseReport, Report
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system.errors import MachineError
from harness.system.escape import printable
from harness.system.futures import complete_from
from harness.system.output import FaultTolerantWriter

# Seconds after which a waiting user gets a line on the current activity.
_PATIENCE_SECONDS = 5.0

Say = Callable[[str], None]

PlanOf = Callable[[Report], SpeedPlan | None]
"""A function that returns the plan to time the submission of a report, or None to not time it."""


class PendingEvaluation:
    """The evaluation of one submission on one problem, which may be queued, running or finished."""

    def __init__(self, request: Request, say: Say, plan_of: PlanOf | None) -> None:
        self.request = request
        self._say = say
        self._plan_of = plan_of
        self._times: Future[Measurement | None] = Future()
        self._changed = threading.Condition()
        self._imported = False
        self._activity = "waiting for its turn"
        self._cases: dict[str, CaseReport] = {}
        self._future: Future[Report] | None = None

    def start(self, engine: Engine, keep: Callable[[Report], None]) -> None:
        """Submit the evaluation on the first call; `keep` stores the report when it exists."""
        if self._future is None:
            self._future = engine.submit(self.request, self._on_progress)
            self._future.add_done_callback(lambda future: self._end(future, keep))
        if self._plan_of:
            self._future.add_done_callback(partial(self._time, engine, self._plan_of))
            self._plan_of = None

    def take_over(self, report: Report) -> None:
        """Use the stored report of an earlier run instead of an evaluation."""
        self._future = Future()
        self._future.set_result(report)
        self._imported = any(case.verdict != "not run" for case in report.cases)

    def wait_until_imported(self) -> str | None:
        """Wait until the submission is imported; return None, or the reason if that failed."""
        self._wait(lambda: self._imported)
        if self._imported:
            return None
        report = self.report()
        more = [*rest_of_headline(report), *report.detail.splitlines()]
        return "\n".join((headline(report), *map(printable, more)))

    def wait_for_case(self, case_id: str) -> CaseReport:
        """Wait for the report of one case, and return it."""
        self._wait(lambda: case_id in self._cases)
        return self._cases.get(case_id) or self.report().case(case_id)

    def explain(self, case_id: str) -> str:
        """Return a failing case's message, diagnosis, pattern over all cases, and replay option."""
        report = self.report()
        case = report.case(case_id)
        lines = [f"{self.request.title}: {case.verdict}", *case_lines(case)]
        if case.diagnosis:
            lines.append(f"diagnosis: {case.diagnosis}")
        if report.shared:
            lines.append(f"pattern: {report.shared}")
        if report.smallest_failure not in ("", case_id):
            lines.append(f"smallest failing case: {report.smallest_failure}")
        if case.label == "search":
            # A search's case has no test of its own, since the findings depend on the time.
            path = self.request.submission
            lines.append(f"replay: harness check {path} --seed {report.seed} --case {case_id}")
        else:
            lines.append(f"replay: --harness-seed {report.seed}")
        return "\n".join(map(printable, lines))

    def report(self) -> Report:
        """Wait for the report on all cases, and return it.

        Raises:
            EvaluationError: The evaluation failed.
            MachineError: No submission can be evaluated on this machine.
        """
        if self._future is None:
            raise EvaluationError(f"{self.request.title} was not asked for")
        return self._future.result()

    def measurement(self) -> Measurement | None:
        """Wait until the submission is timed, and return the times; None if it is not to be timed.

        Raises:
            EvaluationError: The evaluation failed and has no report, or the plan cannot be timed.
            harness.speed.contender.ContenderError: The submission cannot be timed, or returned a
                wrong output while it was timed.
        """
        self.report()
        return self._times.result()

    def _time(self, engine: Engine, plan_of: PlanOf, evaluated: Future[Report]) -> None:
        has_report = not evaluated.cancelled() and evaluated.exception() is None
        plan = plan_of(evaluated.result()) if has_report else None
        if plan:
            engine.measure(plan).add_done_callback(self._take_times)
        else:
            self._times.set_result(None)

    def _take_times(self, measured: Future[Measurement]) -> None:
        complete_from(self._times, measured.result)

    def is_done(self) -> bool:
        """Return whether the evaluation has ended, or all cases are done and no search follows."""
        if self._future is None or self._future.cancelled():
            return False
        if self._future.done() or self.request.search:
            return self._future.done()
        return self._cases.keys() == {case.id for case in self.request.cases}

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Wait for `ready()` or the evaluation's end; during a long wait, print its activity."""
        said = ""
        with self._changed:
            while not ready() and not (self._future and self._future.done()):
                if not self._changed.wait(_PATIENCE_SECONDS) and said != self._activity:
                    said = self._activity
                    self._say(f"{self.request.title}: {said} ...")

    def _on_progress(self, progress: Progress) -> None:
        with self._changed:
            if progress.event == "building":
                self._activity = f"building {progress.name}"
            elif progress.event == "imported":
                self._imported = True
                self._activity = "running cases"
            elif progress.case:
                self._cases[progress.case.id] = progress.case
            self._changed.notify_all()

    def _end(self, future: Future[Report], keep: Callable[[Report], None]) -> None:
        with self._changed:
            self._changed.notify_all()
        if not future.cancelled() and future.exception() is None:
            keep(future.result())


class Suite:
    """All evaluations of a pytest session, in the order of the tests that need them."""

    def __init__(
        self,
        start: Callable[[], Engine],
        reports: Path,
        finished: ReportCache,
        say: Say,
        *,
        ahead: bool,
    ) -> None:
        """Store the settings; `start` returns the engine when the first evaluation is needed.

        If `ahead`, the first evaluation starts all others too. Under pytest-xdist, `ahead` is
        False, because a process does not know which tests it will get.
        """
        self._begin = start
        self._ahead = ahead
        self._reports = reports
        self._finished = finished
        # Printed at the end, because pytest attributes output to the test that is running.
        self.troubles: list[str] = []
        self._careful = FaultTolerantWriter(self.troubles.append)
        self._say = say
        self._engine: Engine | None = None
        self._stack = contextlib.ExitStack()
        self._pending: dict[tuple[Path, Path], PendingEvaluation] = {}

    def expect(self, request: Request, plan_of: PlanOf | None = None) -> None:
        """Add a request; `plan_of` returns its speed plan (or None) from the finished report."""
        key = (request.submission, request.problem)
        self._pending[key] = PendingEvaluation(request, self._say, plan_of)

    @property
    def is_waiting(self) -> bool:
        """True if at least one evaluation has not ended."""
        return not all(pending.is_done() for pending in self._pending.values())

    def take_over(self, seed: int | None) -> tuple[int, int]:
        """Use stored reports instead of evaluations; with `seed`, only reports that have that seed.

        Returns:
            The number of evaluations that were replaced, and the number of all evaluations.
        """
        count = 0
        for pending in self._pending.values():
            report = self._finished.find(pending.request, seed)
            if report:
                pending.take_over(report)
                count += 1
        return count, len(self._pending)

    def _keep(self, request: Request, report: Report) -> None:
        kept = partial(self._finished.keep, request, report)
        self._careful.write("reports for --harness-resume (.harness/finished)", kept)
        if request.is_whole:
            saved = partial(store.save, report, self._reports)
            self._careful.write("reports for the leaderboard (.harness/reports)", saved)

    def evaluation(self, submission: Path, problem: Path) -> PendingEvaluation:
        """Return the evaluation of a submission on a problem, and start it.

        If `ahead`, the first call starts the evaluations of the whole session.
        """
        asked = self._pending[submission, problem]
        if self._engine is None:
            self._engine = self._stack.enter_context(self._begin())
            for pending in self._pending.values() if self._ahead else ():
                self._start(pending, self._engine)
        self._start(asked, self._engine)
        return asked

    def _start(self, pending: PendingEvaluation, engine: Engine) -> None:
        pending.start(engine, partial(self._keep, pending.request))

    def finish(self) -> list[Report]:
        """End all running evaluations; return the reports of those that had already finished."""
        reports = []
        for pending in self._pending.values():
            if pending.is_done():
                with contextlib.suppress(EvaluationError, MachineError):
                    reports.append(pending.report())
        self._stack.close()
        return reports
