"""The sender's side: each evaluation as tasks of a cluster, until it has ended somewhere."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distributed import Future as Task
from distributed import KilledWorker

from harness.compiler.cache import digest, file_digest
from harness.engines.cluster import tasks
from harness.engines.cluster.connection import GPU, client_of, connect, local_cluster, members
from harness.engines.cluster.parcel import Luggage, Parcel, key_of, pack, pack_readable
from harness.engines.cluster.software import software
from harness.engines.cluster.tasks import Order, Outcome
from harness.engines.evaluator import EvaluationError
from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import Report, not_run
from harness.system import codec

_ATTEMPTS = 3
"""How often one evaluation may fail on a machine, or kill what sees to it."""
_MOST_QUEUED = 256
_MOST_BUILDS = 512
"""Held in the cluster's memory, megabytes each."""
_LOOK_SECONDS = 0.1


class DaskEngine:
    """Evaluates on the workers of a cluster.

    Args:
        jobs: Evaluations at a time, where the cluster is this machine's own.
        scheduler: Its address; empty for a cluster in this process.
    """

    def __init__(self, jobs: int, scheduler: str) -> None:
        # Enough that no worker waits for the next one; the contents of all of them are held.
        self.capacity = max(4 * jobs, _MOST_QUEUED if scheduler else 0)
        self._jobs = jobs
        self._scheduler = scheduler
        self._topic = f"harness-{secrets.token_hex(8)}"
        # Never held while Dask is asked for something: its own thread takes it as well.
        self._lock = threading.Lock()
        self._evaluations: dict[str, _Evaluation] = {}
        self._luggage: dict[tuple[Path, ...], tuple[Luggage, Task[Luggage]]] = {}
        self._builds: dict[str, Task[tasks.Builds]] = {}
        self._is_closed = False

    def __enter__(self) -> DaskEngine:
        with ExitStack() as stack:
            if self._scheduler:
                self._client = stack.enter_context(connect(self._scheduler))
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-dask-"))
                cluster = stack.enter_context(local_cluster(self._jobs, Path(folder)))
                self._client = stack.enter_context(client_of(cluster))
            self._share = members(self._client, self._scheduler).share
            self._client.subscribe_topic(self._topic, self._on_event)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
            left = list(self._evaluations.values())
        under_way = [evaluation.task for evaluation in left if evaluation.task]
        with suppress(Exception):  # the cluster may have gone, which is what is wanted
            self._client.cancel([*under_way, *self._builds.values()])
            self._client.unsubscribe_topic(self._topic)
        for evaluation in left:
            evaluation.future.cancel()
        self._stack.close()

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Send a request with the contents of its files; it is evaluated when its turn comes."""
        name = secrets.token_hex(8)
        try:
            evaluation = _Evaluation(self, name, request, on_progress, pack(request))
        except OSError as error:
            failed: Future[Report] = Future()
            failed.set_exception(EvaluationError(f"{error.filename}: {error.strerror}"))
            return failed
        with self._lock:
            self._evaluations[name] = evaluation
        evaluation.begin()
        return evaluation.future

    def send(self, evaluation: _Evaluation) -> Task[Outcome]:
        """Ask the cluster for an evaluation, of what is built before."""
        asked, parcel = evaluation.request, evaluation.parcel
        order = Order(software(), self._topic, evaluation.name)
        luggage, carried = self._carry(asked.readable)
        builds = self._build(parcel, luggage, carried, order)
        task: Task[Outcome] = self._client.submit(
            tasks.evaluate,
            parcel,
            carried,
            builds,
            order,
            key=f"evaluate {asked.title}-{evaluation.name}-{evaluation.attempts}",
            resources={GPU: self._share} if asked.device == "cuda" else None,
            workers=self._others(evaluation.failed_on),
            pure=False,
        )
        return task

    def _carry(self, paths: tuple[Path, ...]) -> tuple[Luggage, Task[Luggage]]:
        if paths not in self._luggage:
            luggage = pack_readable(paths)
            task = self._client.submit(tasks.carry, luggage, key=f"readable-{luggage.key}")
            self._luggage[paths] = (luggage, task)
        return self._luggage[paths]

    def _build(
        self, parcel: Parcel, luggage: Luggage, carried: Task[Luggage], order: Order
    ) -> Task[tasks.Builds]:
        """The builds of a submission: whoever asks for the same ones gets the same task.

        Its key has everything that a build task can see, so that it is the same for other senders.
        """
        asked = parcel.asked
        sender = order.sender
        versions = (sender.harness, sender.torch, sender.nvcc)
        key = digest((key_of(parcel.submission), luggage.key, str(asked.untrusted), *versions))
        if key not in self._builds:
            self._builds[key] = self._client.submit(
                tasks.build,
                parcel,
                carried,
                order,
                key=f"build {asked.submission.stem}-{key}",
                # Whoever waits for a GPU needs it first.
                priority=1,
            )
        while len(self._builds) > _MOST_BUILDS:
            # Those under way keep theirs; workers keep all of them on their disks.
            del self._builds[next(iter(self._builds))]
        return self._builds[key]

    def _others(self, failed_on: set[str]) -> list[str] | None:
        """Workers that have not failed it; None for any."""
        if not failed_on:
            return None
        known: Sequence[str] = list(self._client.scheduler_info(n_workers=-1)["workers"])
        return [address for address in known if address not in failed_on] or None

    def has_others(self, failed_on: set[str]) -> bool:
        """Whether there is a worker that has not failed it."""
        return self._others(failed_on) is not None

    def is_closed(self) -> bool:
        """Whether nobody waits any more."""
        return self._is_closed

    def forget(self, evaluation: _Evaluation) -> None:
        """It has ended: what is told of it from now on is late."""
        with self._lock:
            self._evaluations.pop(evaluation.name, None)

    def rejoin(self) -> None:
        """After the connection was lost: wait until the scheduler, or one in its place, is there.

        Raises:
            EvaluationError: It is not.
        """
        while self._client.status == "connecting" and not self._is_closed:
            time.sleep(_LOOK_SECONDS)
        if self._client.status != "running":
            raise EvaluationError(f"the scheduler {self._scheduler} has gone; check it again")
        # What Dask held of them went with the connection.
        self._luggage.clear()
        self._builds.clear()
        self._client.subscribe_topic(self._topic, self._on_event)

    def _on_event(self, event: tuple[float, Any]) -> None:
        name, text = event[1]
        with self._lock:
            evaluation = self._evaluations.get(name)
        if evaluation:
            evaluation.on_progress(codec.decode(text, Progress))


class _Evaluation:
    """One request, from the moment it is sent until there is a report."""

    def __init__(
        self,
        engine: DaskEngine,
        name: str,
        request: Request,
        on_progress: OnProgress,
        parcel: Parcel,
    ) -> None:
        self.name = name
        self.request = request
        self.on_progress = on_progress
        self.parcel = parcel
        self.future: Future[Report] = Future()
        self.task: Task[Outcome] | None = None
        self.attempts = 0
        self.failed_on: set[str] = set()
        self._deaths = 0
        self._engine = engine

    def begin(self) -> None:
        """Send it; again, where that was done before."""
        self.attempts += 1
        try:
            self.task = self._engine.send(self)
        except (OSError, ValueError) as error:
            self._fail(EvaluationError(str(error)))
            return
        # Dask's signature has no types.
        self.task.add_done_callback(self._on_end)  # type: ignore[no-untyped-call]

    def _on_end(self, task: Task[Outcome]) -> None:
        """In a thread of Dask's."""
        if self._engine.is_closed():
            return
        try:
            self._take(task)
        except EvaluationError as error:
            self._fail(error)
        except Exception as error:
            # Whatever it is, somebody waits for this future.
            self._fail(EvaluationError(f"not evaluated: {type(error).__name__}: {error}"))

    def _take(self, task: Task[Outcome]) -> None:
        # As above.
        error = task.exception() if task.status == "error" else None  # type: ignore[no-untyped-call]
        if isinstance(error, KilledWorker):
            self._finish(self._killed(error.allowed_failures + 1))
        elif error is not None:
            raise EvaluationError(f"not evaluated: {type(error).__name__}: {error}")
        elif task.status != "finished":
            self._engine.rejoin()
            self.begin()
        else:
            self._take_outcome(task.result())

    def _take_outcome(self, outcome: Outcome) -> None:
        if outcome.kind == "report":
            self._finish(Report.from_json(outcome.text))
            return
        self.failed_on.add(outcome.worker)
        if outcome.kind == "lost":
            self._deaths += 1
            if self._deaths == _ATTEMPTS:
                self._finish(self._killed(_ATTEMPTS))
                return
        elif len(self.failed_on) == _ATTEMPTS or not self._engine.has_others(self.failed_on):
            raise EvaluationError(f"worker {outcome.worker}: {outcome.text}")
        self.begin()

    def _finish(self, report: Report) -> None:
        self._engine.forget(self)
        with suppress(Exception):  # it was cancelled in this very moment
            self.future.set_result(report)

    def _fail(self, error: EvaluationError) -> None:
        self._engine.forget(self)
        with suppress(Exception):  # as above
            self.future.set_exception(error)

    def _killed(self, deaths: int) -> Report:
        """The report of a submission that nothing survives."""
        request = self.request
        why = f"what saw to it was killed {deaths} times"
        versions: Mapping[str, str] = {"torch": software().torch, "nvcc": software().nvcc}
        return Report(
            submission=request.submission.stem,
            path=str(request.submission),
            content_hash=file_digest(request.submission),
            problem=request.problem.stem,
            problem_hash=file_digest(request.problem),
            device=request.device,
            grid=request.grid,
            seed=request.seed,
            versions=versions,
            verdict="error",
            message=why,
            cases=tuple(not_run(case, f"not run: {why}") for case in request.cases),
            checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
