"""The check of one submission against one problem: takes a `Request`, returns a `Report`."""

from __future__ import annotations

import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch

from harness.compiler.cache import Cache, default_root, file_digest
from harness.compiler.flags import torch_version
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE
from harness.defaults import CALL_BUDGET
from harness.gpu import lease
from harness.gpu.driver import DriverError
from harness.gpu.properties import properties_of_gpu
from harness.gpu.release import cuda_of_gpu
from harness.judging import own_size, verdict
from harness.judging.case_check import CaseCheck
from harness.judging.case_outcome import CaseOutcome
from harness.judging.conclude import conclude
from harness.judging.division import Division
from harness.judging.unexplained import MOST_GROWTH, unexplained
from harness.preflight import prepare
from harness.problems.grid import (
    OWN,
    Case,
    Grid,
    at_native_size,
    at_numbers,
    half_as_large,
    own_and_smaller,
)
from harness.problems.one_namespace import names_not_shared, shared_constants, shared_in
from harness.problems.problem import MOST_NUMBERS, Problem, load
from harness.problems.search import Search
from harness.problems.values import elements_of, numbers_given, undefined_runs
from harness.records.coverage import BranchCoverage, Coverage
from harness.records.limits import limited, with_short_texts
from harness.records.report import AMISS, BuildReport, CaseReport, Report, not_run
from harness.sandbox.confined import SandboxError
from harness.searching import SearchRun
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.ptx.by_line import PtxOfLine
from harness.simulator.ptx.compared import numbers_compared
from harness.system.allowance import Allowance
from harness.system.device import Device
from harness.system.errors import HarnessError
from harness.worker.build_service import BuildEvent
from harness.worker.device_worker import AfterCalls, DeviceWorker
from harness.worker.settings import Settings
from harness.worker.supervisor import Deadlines, StepFailed, TimeLeft, WorkerFailure

# A worker that dies is replaced, so that one bad case does not hide the others. The number is
# limited, because a submission that dies each time would cost a start for every case.
MAX_RESTARTS = 3
# Limit of all calls of a check together, in budgets of one call.
_CALLS_OF_A_CHECK = 32
# The most times that a case beyond the budget is halved, until it is within the budget.
_MOST_HALVINGS = 2
# Limit of a submission's text in its report, in bytes.
_MOST_SOURCE = 256 << 10
# Errors of the machine, the reference or the user. All others are a submission's `error`. After an
# error of torch's own GPU context, this process can evaluate nothing more.
_NOT_OF_A_SUBMISSION = (HarnessError, SandboxError, OSError, torch.AcceleratorError)


@dataclass(frozen=True)
class Progress:
    """An event during an evaluation, reported before the evaluation ends.

    Attributes:
        event: Kind of event.
            `started`: the evaluation of the request begins.
            `building`: an extension is being built.
            `imported`: the submission is imported, with all extensions that the import builds.
            `case`: a case is done; its report still lacks conclusions that need all cases.
            `searching`: the cases are done, and the search for failures at other sizes begins.
        name: Name of the CUDA extension, for `building`.
        cases: Number of cases to run, for `imported`.
        case: Report of the case, for `case`.
    """

    event: Literal["started", "building", "imported", "case", "searching"]
    name: str = ""
    cases: int = 0
    case: CaseReport | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Request:
    """One check of a submission against a reference, with all settings, as plain data.

    Attributes:
        submission: The submission's file.
        problem: The reference's file.
        device: The device to run on.
        cases: The cases to run, in this order.
        is_whole: Whether `cases` has every case of the grid, not only a selection.
        grid: The grid that the cases come from: `own`, `quick` or `full`.
        seed: Seed from which the cases' seeds were derived.
        deadlines: Time limits of the worker.
        cache: Folder in which builds are cached.
        schedule: The simulator's order of blocks and warps: 0 for the natural order, another number
            for the seed of a permutation.
        cores: Number of processes that may run blocks of one launch side by side on the simulator.
        readable: Files and folders that the submission may read besides those in its own folder.
        carried: Readable files that were sent from another machine: for each path on that machine,
            the copy on this machine. The sandbox shows the copy at the original path.
        untrusted: Whether the evaluation is refused if there is no sandbox.
        call_budget: Thread-instructions that one call may execute on the simulator; all calls
            together may execute 32 times as many. The reference's own configuration is reduced
            until it fits, and has no limit at its smallest size.
        search: Settings of the search for failures at other sizes, made if all cases are right;
            None for no search.
        run: Name that all requests of one command share. A build that failed is not tried again by
            requests with the same name; see `fresh_run`.
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
        """Names of the submission and the problem, for messages: `NAME on NAME`."""
        return f"{self.submission.stem} on {self.problem.stem}"


def fresh_run() -> str:
    """Return a random name for `Request.run`, different for each command."""
    return secrets.token_hex(16)


def evaluate(request: Request, on_progress: OnProgress = lambda _: None) -> Report:
    """Run a submission's cases in a new worker process, judge the results, and return the report.

    Args:
        request: The submission, the reference, the cases and the settings.
        on_progress: Function that is called with each event of the evaluation.

    Returns:
        A report, even if the submission crashes or hangs.

    Raises:
        OSError: A file cannot be read.
        ValueError: The problem's file is not a reference.
        harness.system.errors.MachineError: This machine cannot evaluate anything.
        harness.sandbox.confined.SandboxError: The request needs a sandbox, and this machine has
            none.
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
    try:
        report = evaluation.run(blank)
    except _NOT_OF_A_SUBMISSION:
        raise
    # An answer that makes the judge raise must not keep other submissions from their reports.
    except Exception as error:
        report = evaluation.stopped(blank, verdict.of_own_error(error, problem.path))
    return limited(replace(report, seconds=time.monotonic() - start))


def _source(path: Path) -> str:
    content = path.read_bytes()
    return content.decode(errors="replace") if len(content) <= _MOST_SOURCE else ""


def _notes(problem: Problem, cases: Sequence[Case], schedule: int) -> Iterator[str]:
    if schedule:
        yield f"run with --schedule {schedule}"
    own = next((case for case in cases if case.label in OWN), None)
    if own and problem.init_inputs.positional and not own.constructor_call.positional:
        call = problem.at(own.constants).init_inputs.spelled("ModelNew")
        yield (
            f"ModelNew's parameters are in another order than Model's, so {call}, as "
            "KernelBench calls it, is another model"
        )
    reduced = [case for case in cases if case.label == "reduced"]
    if reduced:
        from_to = zip(problem.input_shapes, reduced[0].input_shapes, strict=True)
        cut = ", ".join(f"{new} in place of {old}" for old, new in from_to if old != new)
        if cut:
            most = max(math.prod(shape) for case in cases for shape in case.input_shapes)
            yield (
                f"the own configuration ran with inputs of {cut}; the largest input of any case "
                f"had {most:,} numbers"
            )
    without = Counter(name for case in cases for name in undefined_runs(problem.at(case.constants)))
    alike: dict[int, list[str]] = {}
    for name, count in without.items():
        alike.setdefault(count, []).append(name)
    for count, names in alike.items():
        where = "1 case" if count == 1 else f"{count} cases"
        yield (
            f"values left out in {where}, since the reference raises or is not "
            f"finite there: {', '.join(names)}"
        )


def _missing_names(problem: Problem, source: str) -> Iterator[str]:
    """Yield a note if a submission reads names that only the reference defines."""
    if names := names_not_shared(problem.tree, source):
        yield (
            f"the file reads {', '.join(names)}, which only the reference defines; copy what is "
            "needed, since a submission gets none of the reference's code"
        )


def settings_for(request: Request) -> Settings:
    """Return the settings of the worker that runs a request; find compilers and build libraries.

    Raises:
        harness.system.errors.MachineError: This machine cannot evaluate anything.
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
    """Wait until `size` bytes of GPU memory can be reserved; reserve them within the context."""
    try:
        with lease.of_current_gpu().share(size):
            yield
    finally:
        torch.cuda.empty_cache()


class _StoppedError(Exception):
    """The end of an evaluation that has no result of any case.

    Attributes:
        stop: The verdict and message of the report.
    """

    def __init__(self, stop: verdict.Stop) -> None:
        super().__init__(stop.message)
        self.stop = stop


class _Evaluation:
    """The state of one evaluation while it runs."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        request: Request,
        on_progress: OnProgress,
    ) -> None:
        self._problem = problem
        self._request = request
        self._settings = settings
        self._time = TimeLeft(request.deadlines)
        self._left = _CALLS_OF_A_CHECK * request.call_budget
        # How the problem's own configuration divides the work, once it has passed.
        self._division: Division | None = None
        self._on_progress = on_progress
        self._builds: dict[str, BuildReport] = {}
        self._refused: dict[str, str] = {}
        self._libraries: list[Path] = []
        # Integers with which the kernels that the import builds compare their parameters. Those of
        # later builds would be missing when one case is replayed.
        self._numbers: Sequence[int] = ()
        self._notes: list[str] = []
        self._ptx: tuple[PtxOfLine, ...] = ()
        # The outcome of the own configuration where it is cut down, if only its own size counts.
        self._cut: CaseOutcome | None = None
        self._is_sampled = False
        self._share = ExitStack()

    def run(self, blank: Report) -> Report:
        """Run the evaluation; return the report `blank` with all results filled in."""
        with self._share:
            return self._run(blank)

    def _run(self, blank: Report) -> Report:
        outcomes: list[CaseOutcome] = []
        left = list(self._request.cases)
        try:
            coverage = self._run_cases(blank, left, outcomes)
        except _StoppedError as stopped:
            return self.stopped(blank, stopped.stop)
        except WorkerFailure as failure:
            return self.stopped(blank, verdict.stop_for_failure(failure))
        became = self._became_of_file(blank)
        if became:
            self._notes.append(
                f"the file was {became} during the check; this report is about the content "
                "before that"
            )
        # Coverage that an earlier worker's device recorded is lost, so the rest would be
        # misleading.
        if any(outcome.worker_failed for outcome in outcomes):
            coverage = None
        outcomes = self._by_own_size(outcomes, blank.source)
        is_right = not left and not any(o.report.verdict in AMISS for o in outcomes)
        if self._request.search and is_right and not became:
            coverage = self._search_on(self._request.search, outcomes, coverage)
        why = f"not run: the worker failed {1 + MAX_RESTARTS} times before"
        if self._time.steps.is_used_up:
            why = "not run: the time for all steps is used up; --check-seconds allows more"
        outcomes += [CaseOutcome(not_run(case, why), case) for case in left]
        self._notes += self._swallowed(outcomes)
        blank = replace(
            blank,
            notes=self._notes_of([outcome.case for outcome in outcomes], blank.source),
            builds=tuple(self._builds.values()),
            ptx=self._ptx,
            coverage=coverage,
        )
        return conclude(blank, outcomes, self._problem)

    def _run_cases(
        self, blank: Report, left: list[Case], outcomes: list[CaseOutcome]
    ) -> Coverage | None:
        """Run cases, and return the coverage if the last worker can still tell it.

        All cases share one worker, since importing a submission takes long. After a failure, a new
        worker continues with the next case.

        Args:
            blank: The report without results.
            left: The cases; each that has run is taken out.
            outcomes: The list to which the outcomes are added.

        Raises:
            _StoppedError: The submission cannot be imported, or its file has changed.
            WorkerFailure: A worker failed before its first case.
        """
        for _ in range(1 + MAX_RESTARTS):
            with self._worker() as worker:
                self._import(worker, left, blank)
                if self._run_in(worker, left, outcomes):
                    return self._look_back(worker)
            if not left or self._time.steps.is_used_up:
                break
        return None

    def _run_in(self, worker: DeviceWorker, left: list[Case], outcomes: list[CaseOutcome]) -> bool:
        """Run cases in a worker until it fails; return whether it ran all of them and did not."""
        while left:
            outcome = self._check(worker, left.pop(0))
            outcomes.append(outcome)
            self._on_progress(Progress("case", case=outcome.report))
            if outcome.worker_failed or worker.is_spent:
                return False
        return True

    def _import(self, worker: DeviceWorker, cases: Sequence[Case], blank: Report) -> None:
        """Make a worker import the submission.

        A submission may read constants that only the reference defines. It gets them with their
        values in the first case.

        Raises:
            _StoppedError: The import raises an exception, or the file is not as it was hashed.
        """
        shared = shared_in(self._problem, cases[0], worker.source) if cases else {}
        fault = None
        try:
            worker.import_submission(shared)
        except StepFailed as failed:
            fault = failed.fault
        self._numbers = self._numbers or self._numbers_compared()
        became = self._became_of_file(blank)
        if became:
            raise _StoppedError(verdict.stop_for_changed_file(became))
        if fault:
            raise _StoppedError(verdict.of_import_fault(fault))
        self._on_progress(Progress("imported", cases=len(self._request.cases)))

    def _numbers_compared(self) -> Sequence[int]:
        """Return the integers that the built kernels compare, in order, if a case needs them."""
        if all(case.label != "random" for case in self._request.cases):
            return ()
        found = (numbers_compared(each.read_bytes()) for each in self._libraries)
        return sorted(frozenset[int]().union(*found))

    def _swallowed(self, outcomes: Sequence[CaseOutcome]) -> Iterator[str]:
        """Yield a note for each extension that did not compile, unless that made a case fail."""
        for name, error in self._refused.items():
            if not any(error in outcome.report.message for outcome in outcomes):
                yield f"{name} did not compile, and the submission continued without it: {error}"

    def _notes_of(self, cases: Sequence[Case], source: str) -> tuple[str, ...]:
        """Return all notes on the cases and on the course of the evaluation."""
        notes = _notes(self._problem, cases, self._settings.schedule)
        return (*notes, *_missing_names(self._problem, source), *self._notes)

    def _search_on(
        self, search: Search, outcomes: list[CaseOutcome], coverage: Coverage | None
    ) -> Coverage | None:
        """Search for failures at other sizes; add them to `outcomes`; return the new coverage."""
        self._on_progress(Progress("searching"))
        # The search has a time limit of its own, so the check's limit does not apply.
        self._time.steps = Allowance(search.seconds + self._request.deadlines.step)
        right = [outcome.case for outcome in outcomes if outcome.report.verdict == "passed"]
        way = (self._problem, self._request.seed, self._worker, self._check_beyond, self._lines_of)
        with SearchRun(*way) as searching:
            try:
                searched = searching.run(search, right, coverage)
            except WorkerFailure as failure:
                self._notes.append(f"--search was stopped: {failure}")
                return coverage
        outcomes += searched.failures
        self._notes.append(searched.note)
        return searched.coverage

    def _check_beyond(self, worker: DeviceWorker, case: Case) -> CaseOutcome:
        return self._converse(worker, case, self._request.call_budget)

    def _worker(self) -> DeviceWorker:
        return DeviceWorker(self._settings, self._request.deadlines, self._on_build, self._time)

    def _check(self, worker: DeviceWorker, case: Case) -> CaseOutcome:
        start = time.monotonic()
        if case.label == "random" and self._numbers:
            case = at_numbers(self._problem, case, self._numbers)
        if self._settings.device == "cuda":
            outcome = self._converse(worker, case, None)
        elif case.label in OWN:
            outcome = self._check_own(worker, case)
        elif self._left <= 0:
            return CaseOutcome(
                not_run(
                    case,
                    "not run: the instruction budget of the check is used up; "
                    "--call-budget allows more",
                ),
                case,
            )
        else:
            outcome = self._converse(worker, case, self._request.call_budget)
            self._left -= outcome.spent
            if outcome.is_over_budget:
                outcome = self._explained(worker, outcome)
        if case.label in OWN:
            self._division = outcome.division
        report = replace(outcome.report, seconds=time.monotonic() - start)
        return replace(outcome, report=with_short_texts(report))

    def _explained(self, worker: DeviceWorker, outcome: CaseOutcome) -> CaseOutcome:
        """Return the outcome of a case beyond the budget, judged by the work of half its size.

        Half the size gets only the part of the budget that leaves the growth without explanation.
        If it exceeds that part, half of it gets the same part again, and so on.
        """
        case, budget = outcome.case, self._request.call_budget
        for _ in range(_MOST_HALVINGS):
            half = half_as_large(self._problem, case, self._request.seed)
            if half is None or self._left <= 0:
                break
            case, budget = half, budget // MOST_GROWTH
            smaller = self._converse(worker, case, budget)
            self._left -= smaller.spent
            if smaller.worker_failed:
                return replace(outcome, worker_failed=True)
            if not smaller.is_over_budget:
                return unexplained(outcome, smaller, self._request.call_budget)
        return outcome

    def _check_own(self, worker: DeviceWorker, case: Case) -> CaseOutcome:
        """Check the reference's own configuration, at reduced sizes first.

        If that result indicates that the submission supports only the native sizes (those in the
        reference's file), check at these sizes too.
        """
        outcome, native = self._check_cut(worker, case), at_native_size(self._problem, case)
        sign = own_size.sign_of_own_size(outcome, native, self._problem, worker.source)
        if sign is None:
            return outcome
        there = None
        if not outcome.worker_failed and own_size.is_affordable(self._problem, native):
            there = self._converse(worker, native, self._request.call_budget)
            if there.report.verdict == "not run":
                there = self._converse(worker, native, self._request.call_budget, native.seed)
                self._is_sampled = True
            outcome = replace(outcome, worker_failed=there.worker_failed)
        if there and there.report.verdict == "passed":
            self._cut = outcome
            return there
        if there and there.report.verdict in ("failed", "error") and not there.worker_failed:
            self._notes.append(
                f"at its native size, {own_size.size_of(self._problem)}, the problem's own "
                f"configuration is not right either: {there.report.message}"
            )
            return outcome
        if sign == "possible":
            return outcome
        self._cut = outcome
        return own_size.without_native_size(outcome, self._problem, there)

    def _by_own_size(self, outcomes: list[CaseOutcome], source: str) -> list[CaseOutcome]:
        """Return the outcomes, changed if the submission supports only the reference's own size.

        In that case, cases of other sizes that failed or did not run become `declined`.
        """
        own = next((each for each in outcomes if each.case.label in OWN), None)
        problem, cut = self._problem, self._cut
        if own is None or not (cut or own_size.is_for_own_size(own, problem, source)):
            return outcomes
        is_right = own.report.verdict == "passed"
        if cut and is_right:
            sample = " in a sample of its blocks," if self._is_sampled else ""
            self._notes.append(
                "the problem's own configuration is right at its native size, "
                f"{own_size.size_of(problem)},{sample} and not where it is cut down"
            )
        if own_size.is_for_any_size(outcomes, problem):
            return [cut if cut and each is own and not is_right else each for each in outcomes]
        note = own_size.note_of_excused(outcomes, problem)
        self._notes += [note] if note else []
        return own_size.with_others_excused(outcomes, problem)

    def _check_cut(self, worker: DeviceWorker, case: Case) -> CaseOutcome:
        """Check the reference's own configuration at the largest size within a call's budget.

        If no size is within the budget, check the smallest size without a budget; only the deadline
        of a call applies there. A size so small that the host may do the work unseen proves nothing
        right: if the submission passes there, the case is not run.
        """
        left_out: CaseOutcome | None = None
        for each in own_and_smaller(self._problem, case):
            outcome = self._converse(worker, each, self._request.call_budget)
            if outcome.report.verdict != "not run":
                return _unless_too_small(outcome, left_out)
            shapes = ", ".join(map(str, each.input_shapes))
            self._notes.append(f"{each.id} with inputs of {shapes}: {outcome.report.message}")
            left_out = outcome
        smallest = left_out.case if left_out else case
        return _unless_too_small(self._converse(worker, smallest, None), left_out)

    def _converse(
        self, worker: DeviceWorker, case: Case, budget: int | None, sample: int | None = None
    ) -> CaseOutcome:
        """Check a case with a worker; `CaseCheck` describes `budget` and `sample`."""
        # The oracle runs on the trusted side. A GPU makes its large cases fast enough.
        device = torch.device("cuda" if self._settings.device == "cuda" else "cpu")
        problem = self._problem.at(case.constants)
        if device.type == "cpu" and (why := _why_too_large(problem, case)):
            return CaseOutcome(not_run(case, why), case)
        is_large = device.type == "cuda" and case.label == "native"
        needed = lease.bytes_needed(elements_of(problem, case)) if is_large else 0
        why = ""
        # Other processes may use more memory than their share. The second attempt waits to be
        # alone.
        for size in (needed, sys.maxsize):
            try:
                self._hold(size)
                check = CaseCheck(
                    problem,
                    case,
                    worker,
                    device,
                    budget,
                    self._problem,
                    sample,
                    self._division,
                    self._request.deadlines.judgement,
                )
                return check.run()
            except (torch.OutOfMemoryError, DriverError) as error:
                why = (
                    f"the GPU has too little memory left for the harness's own computation: {error}"
                )
            except _NOT_OF_A_SUBMISSION:
                raise
            # As in `evaluate`. The worker may be in the middle of a step, so a new one follows.
            except Exception as error:
                stop = verdict.of_own_error(error, self._problem.path)
                report = replace(
                    not_run(case, stop.message), verdict=stop.verdict, detail=stop.detail
                )
                return CaseOutcome(report, case, worker_failed=True)
        return CaseOutcome(replace(not_run(case, why.splitlines()[0]), verdict="error"), case)

    def _hold(self, size: int) -> None:
        """Reserve `size` bytes of GPU memory, in place of the present reservation.

        If `size` is 0, the present reservation stays.
        """
        if size:
            self._share.close()
            self._share.enter_context(_share_of_gpu(size))

    def _became_of_file(self, blank: Report) -> str | None:
        """Return `removed` or `changed` if the file is no longer as it was hashed; else None."""
        try:
            is_same = file_digest(self._settings.submission) == blank.content_hash
        except OSError:
            return "removed"
        return None if is_same else "changed"

    def _look_back(self, worker: DeviceWorker) -> Coverage | None:
        """Store the PTX of the run and notes about the run, and return the coverage.

        One note counts the memory that was never freed. Another note names the constants that the
        submission reads from the reference.
        """
        after = self._after(worker)
        if after is None:
            return None
        shared = shared_constants(self._problem.tree, worker.source)
        read = [name for name in after.constants if name in shared]
        if read:
            self._notes.append(
                f"the file does not define {', '.join(read)}: it gets the reference's values, "
                "because KernelBench executes both files in one namespace"
            )
        if after.leaks:
            self._notes.append(
                f"{len(after.leaks)} allocations of cudaMalloc were never freed, "
                f"{sum(after.leaks)} bytes"
            )
        self._ptx = after.lines.ptx
        return _coverage(after.lines)

    def _lines_of(self, worker: DeviceWorker) -> Coverage | None:
        """Return the coverage: the lines of device code that ran in a worker."""
        after = self._after(worker)
        return _coverage(after.lines) if after else None

    def _after(self, worker: DeviceWorker) -> AfterCalls | None:
        """Return what is known after a worker's calls; None if the submission does not let go."""
        with suppress(StepFailed):
            return worker.look_back()
        return None

    def stopped(self, blank: Report, what: verdict.Stop) -> Report:
        """Return the report of an evaluation that was stopped; it has no result of any case."""
        return replace(
            blank,
            verdict=what.verdict,
            message=what.message,
            detail=what.detail,
            # No case ran, so nothing is said about the cases' inputs.
            notes=self._notes_of([], blank.source),
            builds=tuple(self._builds.values()),
            cases=tuple(not_run(case, f"not run: {what.message}") for case in self._request.cases),
        )

    def _on_build(self, event: BuildEvent) -> None:
        if event.refusal:
            self._refused[event.name] = event.refusal
            return
        if event.entry is None:
            self._on_progress(Progress("building", event.name))
            return
        entry = event.entry
        devices = entry.notes.get("devices")
        if devices and event.name not in self._builds:
            self._notes.append(
                f"{event.name} is built for {devices} alone, which this device would not load; it "
                "ran all the same"
            )
        self._libraries.append(entry.library)
        self._builds[event.name] = BuildReport(
            event.name, entry.seconds, entry.reused, entry.notes["headers"]
        )


def _unless_too_small(outcome: CaseOutcome, left_out: CaseOutcome | None) -> CaseOutcome:
    """Return the outcome at a size that was cut down; `left_out` if a pass there proves nothing.

    `left_out` is the outcome at the last size that exceeded the budget, or None if there is none.
    """
    is_passed = outcome.report.verdict == "passed"
    if left_out and is_passed and own_size.is_too_small_to_tell(outcome.case):
        return left_out
    return outcome


def _why_too_large(problem: Problem, case: Case) -> str:
    """Return why a case's inputs and reference take too much memory, or "" if they do not."""
    numbers = numbers_given(problem, case)
    if numbers <= MOST_NUMBERS:
        return ""
    return (
        f"not run: its weights and inputs are {numbers:,} numbers, and the harness's own "
        f"computation is limited to {MOST_NUMBERS:,}"
    )


def _coverage(lines: Lines) -> Coverage | None:
    if not (lines.reached or lines.missed):
        # A GPU does not record lines, and the kernels may be in another file.
        return None
    branches = tuple(BranchCoverage(*branch) for branch in lines.branches)
    return Coverage(lines.reached, lines.missed, lines.unset, branches)
