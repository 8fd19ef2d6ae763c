"""The Python interface: check kernel submissions from another program.

`check` checks one submission; a `Client` checks many, on any engine. Both take files or source
text, and return a `Report` even if the submission crashes. Every name that the package `harness`
exports is stable.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Self

from harness.compiler.cache import file_digest
from harness.compiler.flags import torch_version
from harness.defaults import BUILD_SECONDS, CALL_BUDGET, CHECK_SECONDS, SPEED_SECONDS, STEP_SECONDS
from harness.devices import Choice
from harness.engines.engine import EngineChoice
from harness.evaluate import OnProgress, Request, fresh_run
from harness.problems.discovery import discover, fits
from harness.problems.grid import Case, Grid, cases_for, fresh_seed
from harness.problems.problem import Problem, load
from harness.problems.search import search_for
from harness.records.report import Report
from harness.sandbox import layers
from harness.speed.measurement import Measurement
from harness.speed.outcome import speed_result
from harness.speed.plan import Entry, SpeedPlan
from harness.speed.result import SpeedResult
from harness.system.errors import UsageError
from harness.system.futures import complete_from
from harness.system.processors import cores_each
from harness.worker.supervisor import Deadlines


@dataclass(frozen=True)
class Options:
    """The options of an evaluation; each equals the option of the same name on the command line.

    Attributes:
        device: `auto` is the GPU if there is one, else the simulator.
        grid: `own` has only the reference's own sizes and arguments. `quick` adds cases that cover
            all pairs of parameter values, `full` all triples.
        seed: Seed of all random values; None for a new seed, which the report states.
        step_seconds: Deadline in seconds for each of these: the import, each construction of the
            model, and each call.
        check_seconds: Deadline in seconds for all steps of one submission together.
        build_seconds: Deadline in seconds for all builds of one submission together.
        call_budget: Most thread-instructions (instructions times threads) of one call on the
            simulator. Cases that need more are not run; the reference's own sizes are reduced until
            they fit.
        schedule: Seed that permutes the simulator's order of blocks and warps; 0 is the natural
            order.
        search: Seconds to search for failures at other sizes, after all cases were right.
        readable: Files and folders that submissions may read, such as headers.
        untrusted: True to run nothing unless every layer of the sandbox works.
        speed_seconds: Most seconds that the timing rounds of one speed measurement may take.
    """

    device: Choice = "auto"
    grid: Grid = "quick"
    seed: int | None = None
    step_seconds: float = STEP_SECONDS
    check_seconds: float = CHECK_SECONDS
    build_seconds: float = BUILD_SECONDS
    call_budget: int = CALL_BUDGET
    schedule: int = 0
    search: float = 0.0
    readable: tuple[Path, ...] = ()
    untrusted: bool = False
    speed_seconds: float = SPEED_SECONDS


def check(submission: str | Path, reference: str | Path, options: Options | None = None) -> Report:
    """Check one submission against a reference, and return the report.

    Each call starts a process, which takes seconds; a `Client` reuses processes.

    Args:
        submission: A file, or source text: text that contains a line break is source.
        reference: A file or source text in KernelBench's format. It is trusted, and imported.
        options: Options of the evaluation; None for the command line's defaults.

    Raises:
        harness.system.errors.HarnessError: The reference is invalid, the options need something
            that this machine lacks, or this machine cannot evaluate anything.
        harness.engines.evaluator.EvaluationError: The evaluation failed for a reason that lies
            outside the submission.
    """
    with Client(jobs=1, options=options) as client:
        return client.submit(submission, reference).result()


class Client:
    """A context manager that checks submissions concurrently; leaving it ends all running checks.

    Entering it raises MachineError if this machine cannot evaluate anything.

    Args:
        engine: `processes` runs several checks at a time on this machine; `dask` runs on a cluster;
            `in_process` runs each check in this process before `submit` returns.
        scheduler: Address of a running cluster, for `dask`; empty for a new cluster on this
            machine.
        jobs: Number of checks at a time on this machine. None for one per processor, or for as many
            as fit into the GPU's memory.
        options: Options of all checks; None for the command line's defaults.

    Raises:
        harness.system.errors.HarnessError: The engine does not exist, or it cannot run any check.
    """

    def __init__(
        self,
        engine: str = "processes",
        *,
        scheduler: str = "",
        jobs: int | None = None,
        options: Options | None = None,
    ) -> None:
        self._options = options or Options()
        # The machines of a cluster check their own sandboxes.
        is_here = self._options.untrusted and not scheduler
        layers.require_for(self._options.readable, untrusted=is_here)
        choice = EngineChoice(engine, scheduler)
        self._hardware = choice.hardware(self._options.device)
        self._prepare = choice.prepare
        self._jobs = jobs or self._hardware.jobs
        self._engine = choice.start(self._jobs, self._jobs)
        self._stack = ExitStack()
        self._run = fresh_run()

    def __enter__(self) -> Self:
        self._prepare()
        with ExitStack() as stack:
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-sources-"))
            self._folder = Path(name)
            stack.enter_context(self._engine)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def submit(
        self,
        submission: str | Path,
        reference: str | Path,
        on_progress: OnProgress = lambda _: None,
    ) -> Future[Report]:
        """Queue the check of a submission against a reference, and return a future of the report.

        A file that is not a submission, or that does not fit the reference, also gets a report,
        with the verdict `error`. The future raises EvaluationError if the check failed for another
        reason than the submission. It raises MachineError if the machine cannot run any further
        check.

        Args:
            submission: A file, or source text: text that contains a line break is source.
            reference: A file or source text. It is trusted, and imported.
            on_progress: Function that is called from another thread for each event of the check.

        Raises:
            harness.problems.problem.ProblemError: The reference is invalid.
        """
        problem = load(self._file(reference, "reference").resolve())
        path = self._file(submission, "submission")
        seed = fresh_seed() if self._options.seed is None else self._options.seed
        found = discover([path])
        why_not = (
            found.rejected[0].message if found.rejected else fits(found.submissions[0], problem)
        )
        if why_not is not None:
            refused: Future[Report] = Future()
            refused.set_result(self._refusal(path, problem, seed, why_not))
            return refused
        kernel = found.submissions[0]
        grid, device = self._options.grid, self._hardware.device
        cases = cases_for(problem, kernel, grid, device, seed=seed)
        request = self._request(path, problem, seed, cases)
        search = search_for(problem, kernel, self._options.search)
        return self._engine.submit(replace(request, search=search), on_progress)

    def map(self, submissions: Iterable[str | Path], reference: str | Path) -> list[Future[Report]]:
        """Check many submissions against one reference; return their futures in order."""
        return [self.submit(submission, reference) for submission in submissions]

    def measure(
        self, submission: str | Path, reference: str | Path, report: Report
    ) -> Future[SpeedResult]:
        """Time a submission and the baselines on a GPU, at the input sizes of the reference's file.

        The engine runs nothing else on that GPU meanwhile.

        Args:
            submission: As for `submit`.
            reference: As for `submit`.
            report: The report of `submit` for this submission and this reference.

        Returns:
            A future of the result. The future raises ContenderError if the submission cannot be
            timed, or if one of the timed calls returned a wrong output. It raises
            EvaluationError or MachineError as the future of `submit` does.

        Raises:
            harness.system.errors.UsageError: The client's device is the simulator, the files have
                changed since the report, or the submission did not pass.
        """
        if self._hardware.device != "cuda":
            raise UsageError("speeds are measured on a GPU only, not on the simulator")
        problem = load(self._file(reference, "reference").resolve())
        path = self._file(submission, "submission")
        if (report.content_hash, report.problem_hash) != (file_digest(path), problem.content_hash):
            raise UsageError(
                f"{path.name}: the report belongs to another version of the submission or "
                "reference; check it again"
            )
        precision = report.precision
        if not report.is_right or precision is None:
            raise UsageError(
                f"{path.name}: not timed, because it did not pass: {report.verdict}: "
                f"{report.message}"
            )
        plan = SpeedPlan(
            request=self._request(path, problem, report.seed, ()),
            entries=(Entry(report.submission, path, precision),),
            seconds=self._options.speed_seconds,
        )
        result: Future[SpeedResult] = Future()

        def conclude(measured: Future[Measurement]) -> None:
            complete_from(result, lambda: speed_result(report, precision, measured.result()))

        self._engine.measure(plan).add_done_callback(conclude)
        return result

    def _file(self, given: str | Path, kind: str) -> Path:
        """Return `given` if it is a path; else write the source text to a file, return its path."""
        if isinstance(given, Path) or "\n" not in given:
            return Path(given)
        content = given.encode(errors="surrogatepass")
        # Each text has a folder of its own, because a submission sees the sources beside its file.
        # Equal texts share one.
        path = self._folder / f"{kind}_{sha256(content).hexdigest()[:12]}" / f"{kind}.py"
        path = path.with_stem(path.parent.name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def _request(
        self, submission: Path, problem: Problem, seed: int, cases: tuple[Case, ...]
    ) -> Request:
        options = self._options
        return Request(
            submission=submission,
            problem=problem.path,
            device=self._hardware.device,
            cases=cases,
            grid=options.grid,
            seed=seed,
            deadlines=Deadlines(
                step=options.step_seconds,
                all_steps=options.check_seconds,
                all_builds=options.build_seconds,
            ),
            schedule=options.schedule,
            cores=cores_each(self._jobs, self._jobs),
            readable=options.readable,
            untrusted=options.untrusted,
            call_budget=options.call_budget,
            run=self._run,
        )

    def _refusal(self, path: Path, problem: Problem, seed: int, why_not: str) -> Report:
        content = path.read_bytes() if path.is_file() else b""
        return Report(
            submission=path.stem,
            path=str(path),
            content_hash=sha256(content).hexdigest(),
            problem=problem.name,
            problem_hash=problem.content_hash,
            device=self._hardware.device,
            grid=self._options.grid,
            seed=seed,
            versions={"torch": torch_version()},
            verdict="error",
            message=why_not,
            checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
