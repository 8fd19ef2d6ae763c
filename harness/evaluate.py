"""Check one submission against one problem: the unit of work, plain data on both sides."""

from __future__ import annotations

import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from harness.compiler.cache import Cache, default_root, file_digest
from harness.compiler.flags import torch_version
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE
from harness.defaults import CALL_BUDGET
from harness.gpu import lease
from harness.gpu.driver import DriverError
from harness.gpu.properties import properties_of_gpu
from harness.gpu.release import cuda_of_gpu
from harness.judging import verdict
from harness.judging.case_check import CaseCheck, CaseOutcome
from harness.judging.conclude import conclude
from harness.preflight import prepare
from harness.problems.grid import OWN, Case, Grid, own_and_smaller
from harness.problems.problem import Problem, load
from harness.problems.search import Search
from harness.problems.values import elements_of, left_out
from harness.records.coverage import Branch, Coverage
from harness.records.report import AMISS, BuildReport, CaseReport, Report, not_run
from harness.searching import Searching
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.ptx.by_line import PtxOfLine
from harness.system.allowance import Allowance
from harness.system.device import Device
from harness.worker.build_service import BuildEvent
from harness.worker.device_worker import DeviceWorker
from harness.worker.settings import Settings
from harness.worker.supervisor import Deadlines, TimeLeft, Worker, WorkerFailure

# A worker that dies is replaced, so that one bad case does not hide the others; but a submission
# that dies every time would cost a start-up for each of its cases.
MAX_RESTARTS = 3
# How many calls that take their whole budget a check may have.
_CALLS_OF_A_CHECK = 32
# Of a submission's text in its report.
_MOST_SOURCE = 256 << 10


@dataclass(frozen=True)
class Progress:
    """Something that is known before the report is.

    Attributes:
        event: `started`, when its turn has come; `building` an extension; `imported`, when
            everything that is built at import is built; `case`, when one is done, before what only
            all cases together can tell; `searching`, when they are done, for more.
        name: The extension's name, for `building`.
        cases: How many there are, for `imported`.
        case: The case's report, for `case`.
    """

    event: Literal["started", "building", "imported", "case", "searching"]
    name: str = ""
    cases: int = 0
    case: CaseReport | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Request:
    """What to check.

    Attributes:
        submission: The submission's file.
        problem: The reference's file.
        device: Where to run it.
        cases: Which cases to run, in this order.
        is_whole: Whether none of the grid's is missing there.
        grid: Which grid they are of.
        seed: What the cases' seeds were derived from.
        deadlines: How long anything may take.
        cache: Where builds are kept.
        schedule: The simulator's order of blocks and warps: 0 is the natural one, another number
            the seed of a permutation.
        cores: Processes that may run blocks of one launch side by side on the simulator.
        readable: Files and folders that the submission may read beside its own.
        carried: What it may read that came from another machine: where that is there, and the file
            here. Only a sandbox can show it there.
        untrusted: Whether nothing may run unless it is in a sandbox.
        call_budget: Thread-instructions that one call may take on the simulator; all calls together
            may take 32 times as much. The problem's own configuration is cut further instead, and
            is not limited at its smallest.
        search: What to look for where all cases are right; None for nothing.
        run: A name for all requests of one command, none of which tries again what another one
            could not build; see `fresh_run`.
    """

    submission: Path
    problem: Path
    device: Device
    cases: tuple[Case, ...] = ()
    is_whole: bool = True
    grid: Grid = "quick"
    seed: int = 0
    deadlines: Deadlines = field(default_factory=Deadlines)
    cache: Path = field(default_factory=default_root)
    schedule: int = 0
    cores: int = 1
    readable: tuple[Path, ...] = ()
    carried: Mapping[str, Path] = field(default_factory=dict)
    untrusted: bool = False
    call_budget: int = CALL_BUDGET
    search: Search | None = None
    run: str = ""

    @property
    def title(self) -> str:
        """Submission and problem, for messages."""
        return f"{self.submission.stem} on {self.problem.stem}"


def fresh_run() -> str:
    """A name that no other run has."""
    return secrets.token_hex(16)


def evaluate(request: Request, on_progress: OnProgress = lambda _: None) -> Report:
    """Run a submission's cases in a worker of its own, and judge what comes back.

    Args:
        request: What to check.
        on_progress: Called with what is known before the report is.

    Returns:
        A report, whatever the submission does.

    Raises:
        OSError: A file cannot be read.
        ValueError: The reference is none.
        harness.system.errors.MachineError: This machine can evaluate nothing.
        harness.sandbox.confined.SandboxError: The request is for a sandbox, and there is none.
    """
    start = time.monotonic()
    on_progress(Progress("started"))
    problem = load(request.problem)
    settings = settings_for(request)
    blank = Report(
        submission=request.submission.stem,
        path=str(request.submission),
        content_hash=file_digest(request.submission),
        problem=problem.name,
        problem_hash=problem.content_hash,
        device=request.device,
        grid=request.grid,
        seed=request.seed,
        versions={"torch": torch_version(), "nvcc": settings.toolchain.cuda.version},
        verdict="not run",
        source=_source(request.submission),
        checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    evaluation = _Evaluation(problem, settings, request, on_progress)
    report = evaluation.run(blank)
    return replace(report, seconds=time.monotonic() - start)


def _source(path: Path) -> str:
    content = path.read_bytes()
    return content.decode(errors="replace") if len(content) <= _MOST_SOURCE else ""


def _notes(problem: Problem, cases: Sequence[Case], schedule: int) -> Iterator[str]:
    if schedule:
        yield f"run with --schedule {schedule}"
    own = next((case for case in cases if case.label in OWN), None)
    if own and problem.init_inputs.positional and not own.constructor_call.positional:
        call = problem.at(own.constants).init_inputs.spelled("ModelNew")
        yield f"by its parameters' order {call}, as KernelBench calls it, is another model"
    reduced = [case for case in cases if case.label == "reduced"]
    if reduced:
        from_to = zip(problem.input_shapes, reduced[0].input_shapes, strict=True)
        cut = ", ".join(f"{old} to {new}" for old, new in from_to if old != new)
        if cut:
            most = max(math.prod(shape) for case in cases for shape in case.input_shapes)
            yield (
                f"the problem's own inputs are cut down: {cut}; their native size was not run, nor "
                f"any input of more than {most:,} numbers"
            )
    without = Counter(name for case in cases for name in left_out(problem.at(case.constants)))
    alike: dict[int, list[str]] = {}
    for name, count in without.items():
        alike.setdefault(count, []).append(name)
    for count, names in alike.items():
        where = "1 case" if count == 1 else f"{count} cases"
        yield (
            f"values left out in {where}, where the reference raises or is not finite: "
            f"{', '.join(names)}"
        )


def settings_for(request: Request) -> Settings:
    """What a worker of the request is told.

    Raises:
        harness.system.errors.MachineError: This machine can evaluate nothing.
    """
    is_real = request.device == "cuda"
    ready = prepare(Cache(request.cache), cuda_of_gpu() if is_real else None)
    properties, architecture = DEVICE, DEFAULT_ARCHITECTURE
    if is_real:
        properties = properties_of_gpu()
        architecture = properties.architecture
    return Settings(
        submission=request.submission.resolve(),
        device=request.device,
        architecture=architecture,
        cache=request.cache,
        toolchain=ready.toolchain,
        libraries=ready.libraries,
        properties=properties,
        schedule=request.schedule,
        cores=request.cores,
        readable=tuple(path.resolve() for path in request.readable),
        carried={path: Path(place) for place, path in request.carried.items()},
        untrusted=request.untrusted,
        run=request.run,
    )


@contextmanager
def _share_of_gpu(size: int) -> Iterator[None]:
    """Wait until the GPU has room for a case of gigabytes."""
    try:
        with lease.of_current_gpu().share(size):
            yield
    finally:
        torch.cuda.empty_cache()


class _Evaluation:
    """The course of one evaluation."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        request: Request,
        on_progress: OnProgress,
    ) -> None:
        self._problem = problem
        self._cases = request.cases
        self._settings = settings
        self._search = request.search
        self._seed = request.seed
        self._deadlines = request.deadlines
        self._time = TimeLeft(request.deadlines)
        self._call_budget = request.call_budget
        self._left = _CALLS_OF_A_CHECK * request.call_budget
        self._on_progress = on_progress
        self._builds: dict[str, BuildReport] = {}
        self._refused: dict[str, str] = {}
        self._notes: list[str] = []
        self._ptx: tuple[PtxOfLine, ...] = ()
        self._share = ExitStack()

    def run(self, blank: Report) -> Report:
        """Fill in a blank report."""
        with self._share:
            return self._run(blank)

    def _run(self, blank: Report) -> Report:
        outcomes: list[CaseOutcome] = []
        left = list(self._cases)
        coverage: Coverage | None = None
        for _ in range(1 + MAX_RESTARTS):
            try:
                with self._worker() as worker:
                    fault = worker.request("import").header.get("fault")
                    became = self._became_of_file(blank)
                    if became:
                        return self._stopped(blank, verdict.of_changed_file(became))
                    if fault:
                        return self._stopped(blank, verdict.of_import_fault(fault))
                    self._on_progress(Progress("imported", cases=len(self._cases)))
                    while left:
                        outcomes.append(self._check(worker, left.pop(0)))
                        self._on_progress(Progress("case", case=outcomes[-1].report))
                        if outcomes[-1].worker_failed or worker.is_spent:
                            break
                    else:
                        coverage = self._look_back(worker)
            except WorkerFailure as failure:
                return self._stopped(blank, verdict.of_failure(failure))
            if not left or self._time.steps.is_used_up:
                break
        became = self._became_of_file(blank)
        if became:
            self._notes.append(f"the file was {became} meanwhile; this is about what it was")
        # Of what an earlier worker's device ran nothing is known any more.
        if any(outcome.worker_failed for outcome in outcomes):
            coverage = None
        is_right = not left and not any(o.report.verdict in AMISS for o in outcomes)
        if self._search and is_right and not became:
            coverage = self._search_on(self._search, outcomes, coverage)
        why = f"not run: the worker failed {1 + MAX_RESTARTS} times before"
        if self._time.steps.is_used_up:
            why = "not run: the time for all steps is used up"
        outcomes += [CaseOutcome(not_run(case, why), case) for case in left]
        self._notes += self._swallowed(outcomes)
        blank = replace(
            blank,
            notes=self._notes_of([outcome.case for outcome in outcomes]),
            builds=tuple(self._builds.values()),
            ptx=self._ptx,
            coverage=coverage,
        )
        return conclude(blank, outcomes, self._problem)

    def _swallowed(self, outcomes: Sequence[CaseOutcome]) -> Iterator[str]:
        """What the compiler refused and no case has failed by."""
        for name, error in self._refused.items():
            if not any(error in outcome.report.message for outcome in outcomes):
                yield f"{name} was not compiled, and the submission went on without it: {error}"

    def _notes_of(self, cases: Sequence[Case]) -> tuple[str, ...]:
        """What there is to say of the cases that were to run, and of how that went."""
        return (*_notes(self._problem, cases, self._settings.schedule), *self._notes)

    def _search_on(
        self, search: Search, outcomes: list[CaseOutcome], coverage: Coverage | None
    ) -> Coverage | None:
        """Add the failures that a search finds to the outcomes; answers which lines ran by now."""
        self._on_progress(Progress("searching"))
        # Its own deadline is how long it may take in all.
        self._time.steps = Allowance(search.seconds + self._deadlines.step)
        right = [outcome.case for outcome in outcomes if outcome.report.verdict == "passed"]
        way = (self._problem, self._seed, self._worker, self._check_beyond, self._lines_of)
        with Searching(*way) as searching:
            try:
                searched = searching.run(search, right, coverage)
            except WorkerFailure as failure:
                self._notes.append(f"--search came to its end: {failure}")
                return coverage
        outcomes += searched.failures
        self._notes.append(searched.note)
        return searched.coverage

    def _check_beyond(self, worker: Worker, case: Case) -> CaseOutcome:
        return self._converse(worker, case, self._call_budget)

    def _worker(self) -> Worker:
        return DeviceWorker(self._settings, self._deadlines, self._on_build, self._time)

    def _check(self, worker: Worker, case: Case) -> CaseOutcome:
        start = time.monotonic()
        if self._settings.device == "cuda":
            outcome = self._converse(worker, case, None)
        elif case.label in OWN:
            outcome = self._check_own(worker, case)
        elif self._left <= 0:
            return CaseOutcome(not_run(case, "not run: the check's budget is used up"), case)
        else:
            outcome = self._converse(worker, case, self._call_budget)
            self._left -= outcome.spent
        report = replace(outcome.report, seconds=time.monotonic() - start)
        return replace(outcome, report=report)

    def _check_own(self, worker: Worker, case: Case) -> CaseOutcome:
        """Check the problem's own configuration as large as it is within a call's budget.

        What the problem is about is checked however long it takes: the smallest has each call's
        deadline alone.
        """
        smallest = case
        for each in own_and_smaller(self._problem, case):
            outcome = self._converse(worker, each, self._call_budget)
            if outcome.report.verdict != "not run":
                return outcome
            shapes = ", ".join(map(str, each.input_shapes))
            self._notes.append(f"{each.id} with inputs of {shapes}: {outcome.report.message}")
            smallest = each
        return self._converse(worker, smallest, None)

    def _converse(self, worker: Worker, case: Case, budget: int | None) -> CaseOutcome:
        # The oracle is the trusted side's, wherever it computes; a GPU makes large cases bearable.
        device = torch.device("cuda" if self._settings.device == "cuda" else "cpu")
        problem = self._problem.at(case.constants)
        needed = lease.need(elements_of(problem, case)) if case.label == "native" else 0
        why = ""
        # Others may have taken more than they said; alone it may fit.
        for size in (needed, sys.maxsize):
            try:
                self._hold(size)
                return CaseCheck(problem, case, worker, device, budget).run()
            except (torch.OutOfMemoryError, DriverError) as error:
                why = f"the GPU has no memory left for the harness's own part: {error}"
        return CaseOutcome(replace(not_run(case, why.splitlines()[0]), verdict="error"), case)

    def _hold(self, size: int) -> None:
        """Have so much of the GPU until the end, instead of what was held; 0 changes nothing."""
        if size:
            self._share.close()
            self._share.enter_context(_share_of_gpu(size))

    def _became_of_file(self, blank: Report) -> str | None:
        """What was done to the submission's file since its hash was taken; None for nothing."""
        try:
            is_same = file_digest(self._settings.submission) == blank.content_hash
        except OSError:
            return "taken away"
        return None if is_same else "changed"

    def _look_back(self, worker: Worker) -> Coverage | None:
        """Note what was never freed, and the PTX; answers which lines of device code ran."""
        header = worker.request("leaks").header
        sizes = header.get("leaks", ())
        if sizes:
            self._notes.append(
                f"{len(sizes)} allocations of cudaMalloc were never freed, {sum(sizes)} bytes"
            )
        self._ptx = tuple(
            PtxOfLine(**{**plain, "instructions": tuple(plain["instructions"])})
            for plain in header.get("lines", {}).get("ptx", ())
        )
        return _coverage(header)

    def _lines_of(self, worker: Worker) -> Coverage | None:
        """Which lines of device code ran in a worker."""
        return _coverage(worker.request("leaks").header)

    def _stopped(self, blank: Report, what: verdict.Stop) -> Report:
        """The report of a submission that could not even be imported."""
        return replace(
            blank,
            verdict=what.verdict,
            message=what.message,
            detail=what.detail,
            notes=self._notes_of(self._cases),
            builds=tuple(self._builds.values()),
            cases=tuple(not_run(case, f"not run: {what.message}") for case in self._cases),
        )

    def _on_build(self, event: BuildEvent) -> None:
        if event.refusal:
            self._refused[event.name] = event.refusal
            return
        if event.entry is None:
            self._on_progress(Progress("building", event.name))
            return
        entry = event.entry
        self._builds[event.name] = BuildReport(
            event.name, entry.seconds, entry.reused, entry.notes["headers"]
        )


def _coverage(header: Mapping[str, Any]) -> Coverage | None:
    lines = header.get("lines")
    if lines is None or not (lines["reached"] or lines["missed"]):
        # On a GPU nobody looks; and the kernels may stand in another file.
        return None
    return Coverage(
        tuple(lines["reached"]),
        tuple(lines["missed"]),
        tuple(lines["unset"]),
        tuple(Branch(*branch) for branch in lines["branches"]),
    )
