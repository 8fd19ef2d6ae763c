"""The evaluations behind a pytest session: started side by side, awaited test by test.

What is right and is to be timed is timed as soon as the engine can do so.
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
from harness.engines.finished import Finished
from harness.evaluate import Progress, Request
from harness.records import store
from harness.records.render import case_lines, headline
from harness.records.report import CaseReport, Report
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system.errors import MachineError
from harness.system.escape import printable
from harness.system.futures import settle
from harness.system.output import CarefulWriter

# After which a person wonders what is going on.
_PATIENCE_SECONDS = 5.0

Say = Callable[[str], None]

PlanOf = Callable[[Report], SpeedPlan | None]
"""What is to be timed of a submission with such a report; None for nothing."""


class PendingEvaluation:
    """One submission on one problem, under way."""

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
        """Ask for the evaluation, whose report is to be kept; nothing when it was asked for."""
        if self._future is None:
            self._future = engine.submit(self.request, self._on_progress)
            self._future.add_done_callback(lambda future: self._end(future, keep))
        if self._plan_of:
            self._future.add_done_callback(partial(self._time, engine, self._plan_of))
            self._plan_of = None

    def take_over(self, report: Report) -> None:
        """Have the report of an earlier run instead of an evaluation."""
        self._future = Future()
        self._future.set_result(report)
        self._imported = any(case.verdict != "not run" for case in report.cases)

    def wait_until_imported(self) -> str | None:
        """Wait until the submission is imported; answers what kept it from that, or None."""
        self._wait(lambda: self._imported)
        if self._imported:
            return None
        report = self.report()
        lines = [headline(report), *map(printable, report.detail.splitlines())]
        return "\n".join(lines)

    def wait_for_case(self, case_id: str) -> CaseReport:
        """Wait for one case's report."""
        self._wait(lambda: case_id in self._cases)
        return self._cases.get(case_id) or self.report().case(case_id)

    def explain(self, case_id: str) -> str:
        """Everything that is known of a failing case, with what all cases together tell."""
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
            # No test stands for it: what is found depends on the time.
            path = self.request.submission
            lines.append(f"replay: harness check {path} --seed {report.seed} --case {case_id}")
        else:
            lines.append(f"replay: --harness-seed {report.seed}")
        return "\n".join(map(printable, lines))

    def report(self) -> Report:
        """Wait for the whole report.

        Raises:
            EvaluationError: there is none.
            MachineError: there will be none of any other submission either.
        """
        if self._future is None:
            raise EvaluationError(f"{self.request.title} was not asked for")
        return self._future.result()

    def measurement(self) -> Measurement | None:
        """Wait until the submission is timed; None where it is not to be.

        Raises:
            EvaluationError: There is no report, or nothing can be timed.
            harness.speed.contender.ContenderError: It cannot be timed, or gave a wrong output.
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
        settle(self._times, measured.result)

    def is_done(self) -> bool:
        """Whether the report is there, or about to be: nothing is left to run."""
        if self._future is None or self._future.cancelled():
            return False
        if self._future.done() or self.request.search:
            return self._future.done()
        return self._cases.keys() == {case.id for case in self.request.cases}

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until `ready()` or the end of the evaluation, saying what is going on meanwhile."""
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
    """All evaluations of a session, in the order in which tests will ask for them."""

    def __init__(
        self,
        start: Callable[[], Engine],
        reports: Path,
        finished: Finished,
        say: Say,
        *,
        ahead: bool,
    ) -> None:
        """A suite on the engine that is started; `ahead` of its tests, or only when asked for.

        One process of several (pytest-xdist) does not know which tests will be its own.
        """
        self._begin = start
        self._ahead = ahead
        self._reports = reports
        self._finished = finished
        # Said at the end: what is printed in the middle of a test, pytest takes for the test's.
        self.troubles: list[str] = []
        self._careful = CarefulWriter(self.troubles.append)
        self._say = say
        self._engine: Engine | None = None
        self._stack = contextlib.ExitStack()
        self._pending: dict[tuple[Path, Path], PendingEvaluation] = {}

    def expect(self, request: Request, plan_of: PlanOf | None = None) -> None:
        """Announce a request, and what is to be timed then."""
        key = (request.submission, request.problem)
        self._pending[key] = PendingEvaluation(request, self._say, plan_of)

    @property
    def is_waiting(self) -> bool:
        """Whether something is left to evaluate."""
        return not all(pending.is_done() for pending in self._pending.values())

    def take_over(self, seed: int | None) -> tuple[int, int]:
        """Have what earlier runs finished, with that seed if there is one.

        Returns:
            How many evaluations need not be made, and of how many.
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
        """The evaluation of one pair; the first call starts what can be started ahead."""
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
        """End what is under way; answer the reports that are done."""
        reports = []
        for pending in self._pending.values():
            if pending.is_done():
                with contextlib.suppress(EvaluationError, MachineError):
                    reports.append(pending.report())
        self._stack.close()
        return reports
