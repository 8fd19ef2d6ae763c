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
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Self

from harness.compiler.cache import file_digest
from harness.compiler.flags import torch_version
from harness.engines.engine import EngineChoice
from harness.evaluate import OnProgress
from harness.options import Options
from harness.problems.discovery import discover, fits
from harness.problems.problem import Problem, load
from harness.records.report import Report
from harness.requesting import Requests
from harness.sandbox import layers
from harness.speed.measurement import Measurement
from harness.speed.outcome import speed_result
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.speed.result import SpeedResult
from harness.system.errors import UsageError
from harness.system.futures import complete_from
from harness.system.processors import cores_each


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
        self._requests = Requests.of(self._options, self._hardware.device)
        self._prepare = choice.prepare
        self._jobs = jobs or self._hardware.jobs
        self._engine = choice.start(self._jobs, self._jobs)
        self._stack = ExitStack()

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
        requests = self._requests.reseeded()
        found = discover([path])
        why_not = (
            found.rejected[0].message if found.rejected else fits(found.submissions[0], problem)
        )
        if why_not is not None:
            refused: Future[Report] = Future()
            refused.set_result(self._refusal(path, problem, requests.seed, why_not))
            return refused
        kernel = found.submissions[0]
        request = requests.request(
            path,
            problem.path,
            requests.cases(problem, kernel),
            search=requests.search(problem, kernel),
            cores=cores_each(self._jobs, self._jobs),
        )
        return self._engine.submit(request, on_progress)

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
            request=replace(self._requests, seed=report.seed).request(
                path, problem.path, cores=cores_each(self._jobs, self._jobs)
            ),
            entries=(PlannedSubmission(report.submission, path, precision),),
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
