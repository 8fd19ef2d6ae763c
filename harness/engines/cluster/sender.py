"""The sender's part of the Dask engine: sends evaluations and timings as tasks and retries them."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from distributed import Future as Task
from distributed import KilledWorker

from harness.compiler.cache import digest, file_digest
from harness.engines.cluster import tasks
from harness.engines.cluster.connection import GPU, client_of, connect, local_cluster, members
from harness.engines.cluster.parcel import (
    Parcel,
    ReadableFiles,
    TimingParcel,
    key_of,
    pack,
    pack_plan,
    pack_readable,
)
from harness.engines.cluster.software import software
from harness.engines.cluster.tasks import TaskInfo, TaskOutcome
from harness.engines.evaluator import EvaluationError
from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import Report, not_run
from harness.speed.contender import ContenderError
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system import codec
from harness.system.errors import MachineError

_ATTEMPTS = 3
"""Limit of one task's failures on different machines, and of deaths of its evaluator process."""
_MOST_QUEUED = 256
_MOST_BUILDS = 512
"""Limit of the builds kept in the cluster's memory; each takes megabytes."""
_LOOK_SECONDS = 0.1

T = TypeVar("T")


class DaskEngine:
    """An engine that evaluates on the workers of a Dask cluster.

    Each evaluation is two tasks. The first task builds the submission on any processor. Its key is
    a digest of the submission's files, so equal submissions are built once. The second task
    evaluates and reserves a share of a GPU. Thus a GPU does not wait for a compiler.

    Args:
        jobs: Number of evaluations at a time on a cluster in this process.
        scheduler: Address of an existing scheduler; empty for a new cluster in this process.
    """

    def __init__(self, jobs: int, scheduler: str) -> None:
        # Enough that no worker waits for its next task. More would fill memory, since the contents
        # of all requests are held.
        self.capacity = max(4 * jobs, _MOST_QUEUED if scheduler else 0)
        self._jobs = jobs
        self._scheduler = scheduler
        self._topic = f"harness-{secrets.token_hex(8)}"
        # This lock is never held during a call of Dask, because Dask's own thread takes it too.
        self._lock = threading.Lock()
        # A retry is sent by one of Dask's threads, so sending has a lock of its own.
        self._sending = threading.Lock()
        self._sent: dict[str, _Sent[Any]] = {}
        self._luggage: dict[tuple[Path, ...], tuple[ReadableFiles, Task[ReadableFiles]]] = {}
        self._builds: dict[str, Task[tasks.Builds]] = {}
        # Workers whose machine cannot evaluate anything; this engine sends them nothing more.
        self._unfit: set[str] = set()
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
            left = list(self._sent.values())
        under_way = [each.task for each in left if each.task]
        with suppress(Exception):  # the cluster may have gone, and then nothing is left to cancel
            self._client.cancel([*under_way, *self._builds.values()])
            self._client.unsubscribe_topic(self._topic)
        for each in left:
            each.future.cancel()
        self._stack.close()

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Send a request with its files' contents to the cluster; return a future of the report."""
        return self._begin(lambda: _Evaluation(self, request, on_progress, pack(request)))

    def measure(self, plan: SpeedPlan) -> Future[Measurement]:
        """Send a speed plan and the contents of its files to a GPU that runs nothing else.

        A timing runs before all evaluations that have not started yet.
        """
        return self._begin(lambda: _Timing(self, plan, pack_plan(plan)))

    def _begin(self, pack_up: Callable[[], _Sent[T]]) -> Future[T]:
        try:
            sent = pack_up()
        except OSError as error:
            failed: Future[T] = Future()
            failed.set_exception(EvaluationError(f"{error.filename}: {error.strerror}"))
            return failed
        with self._lock:
            self._sent[sent.name] = sent
        sent.begin()
        return sent.future

    def send(self, evaluation: _Evaluation) -> Task[TaskOutcome]:
        """Submit the Dask tasks of an evaluation (build, evaluate); return the latter task."""
        asked, parcel = evaluation.request, evaluation.parcel
        order = TaskInfo(software(), self._topic, evaluation.name)
        with self._sending:
            luggage, carried = self._carry(asked.readable)
            builds = self._build(parcel, luggage, carried, order)
        task: Task[TaskOutcome] = self._client.submit(
            tasks.evaluate,
            parcel,
            carried,
            builds,
            order,
            key=f"evaluate {evaluation.key}",
            resources={GPU: self._share} if asked.device == "cuda" else None,
            workers=self._others(evaluation.failed_on),
            pure=False,
        )
        return task

    def send_timing(self, timing: _Timing) -> Task[TaskOutcome]:
        """Submit the Dask tasks of a timing (builds, measurement); return the measurement."""
        order = TaskInfo(software(), self._topic, timing.name)
        with self._sending:
            luggage, carried = self._carry(timing.plan.request.readable)
            builds = [self._build(each, luggage, carried, order) for each in timing.parcel.entries]
        task: Task[TaskOutcome] = self._client.submit(
            tasks.measure,
            timing.parcel,
            carried,
            builds,
            order,
            key=f"time {timing.key}",
            # The whole resource, so that no other task runs on that GPU.
            resources={GPU: 1},
            # Without a priority, evaluations would take each share as it becomes free, and the
            # timing would wait for all of them.
            priority=2,
            workers=self._others(timing.failed_on),
            pure=False,
        )
        return task

    def _carry(self, paths: tuple[Path, ...]) -> tuple[ReadableFiles, Task[ReadableFiles]]:
        if paths not in self._luggage:
            luggage = pack_readable(paths)
            task = self._client.submit(tasks.carry, luggage, key=f"readable-{luggage.key}")
            self._luggage[paths] = (luggage, task)
        return self._luggage[paths]

    def _build(
        self, parcel: Parcel, luggage: ReadableFiles, carried: Task[ReadableFiles], order: TaskInfo
    ) -> Task[tasks.Builds]:
        """Return the Dask task that builds a submission; the same files are built by only one task.

        The task's key is a digest of all inputs of the build, so different senders share the task
        too.
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
                # Builds go before evaluations, because tasks that wait for a GPU need them first.
                priority=1,
                workers=self._others(set()),
            )
        while len(self._builds) > _MOST_BUILDS:
            # Running tasks keep their builds. Workers also keep all builds on disk.
            del self._builds[next(iter(self._builds))]
        return self._builds[key]

    def _others(self, failed_on: set[str]) -> list[str] | None:
        """Return the addresses of usable workers that are not in `failed_on`; None to allow all.

        A worker is unusable if its machine cannot evaluate any request. The result is None if every
        worker is allowed, or if no worker would be left.
        """
        avoided = failed_on | self._unfit
        if not avoided:
            return None
        known: Sequence[str] = list(self._client.scheduler_info(n_workers=-1)["workers"])
        return [address for address in known if address not in avoided] or None

    def avoid(self, address: str) -> None:
        """Send no more tasks to the worker at an address; its machine cannot run evaluations."""
        self._unfit.add(address)

    def has_others(self, failed_on: set[str]) -> bool:
        """Return whether there is a usable worker on which the task has not failed yet."""
        return self._others(failed_on) is not None

    def is_closed(self) -> bool:
        """Return whether the engine is closed, so that nothing waits for results any more."""
        return self._is_closed

    def forget(self, name: str) -> None:
        """Remove the ended task of this name; the engine ignores later messages about the task."""
        with self._lock:
            self._sent.pop(name, None)

    def rejoin(self) -> None:
        """Wait until the client has reconnected to the scheduler or to a replacement of it.

        Raises:
            EvaluationError: The connection is not restored within Dask's timeout.
        """
        while self._client.status == "connecting" and not self._is_closed:
            time.sleep(_LOOK_SECONDS)
        if self._client.status != "running":
            raise EvaluationError(
                f"the connection to the scheduler {self._scheduler} was lost; check it again"
            )
        # Dask's data was lost with the connection, so it must be sent again.
        with self._sending:
            self._luggage.clear()
            self._builds.clear()
        self._client.subscribe_topic(self._topic, self._on_event)

    def _on_event(self, event: tuple[float, Any]) -> None:
        name, text = event[1]
        with self._lock:
            sent = self._sent.get(name)
        if sent:
            sent.on_progress(codec.decode(text, Progress))


class _Sent(Generic[T]):
    """An evaluation or timing that was sent to the cluster; it is retried until a result exists.

    Dask itself runs a task again if the task's Dask worker dies. This class makes all other
    retries, and avoids the workers on which the task has failed.

    Args:
        engine: The engine that sends the task.
        title: Name of the task for Dask's dashboard.
        on_progress: Function that is called with the progress that a worker reports.
    """

    def __init__(self, engine: DaskEngine, title: str, on_progress: OnProgress) -> None:
        self.name = secrets.token_hex(8)
        self.on_progress = on_progress
        self.future: Future[T] = Future()
        self.task: Task[TaskOutcome] | None = None
        self.failed_on: set[str] = set()
        self._title = title
        self._attempts = 0
        self._deaths = 0
        self._engine = engine

    @property
    def key(self) -> str:
        """Key of the Dask task, different for each attempt."""
        return f"{self._title}-{self.name}-{self._attempts}"

    def _send(self) -> Task[TaskOutcome]:
        """Submit the Dask task for this attempt, and return it."""
        raise NotImplementedError

    def _read(self, outcome: TaskOutcome) -> T:
        """Return the result in a worker's outcome, or raise the error that the future gets."""
        raise NotImplementedError

    def _killed(self, deaths: int) -> T:
        """Return the result after the evaluator process died `deaths` times, or raise an error."""
        raise NotImplementedError

    def begin(self) -> None:
        """Submit the task to the cluster, for the first time or again."""
        self._attempts += 1
        try:
            self.task = self._send()
        except (OSError, ValueError) as error:
            self._fail(EvaluationError(str(error)))
            return
        # Dask's signature has no types.
        self.task.add_done_callback(self._on_end)  # type: ignore[no-untyped-call]

    def _on_end(self, task: Task[TaskOutcome]) -> None:
        """Complete the future from an ended Dask task, or retry; runs in one of Dask's threads."""
        if self._engine.is_closed():
            return
        try:
            self._take(task)
        except (ContenderError, EvaluationError, MachineError) as error:
            self._fail(error)
        except Exception as error:
            # Any other error must reach the future too, since a caller waits for it.
            self._fail(EvaluationError(f"not evaluated: {type(error).__name__}: {error}"))

    def _take(self, task: Task[TaskOutcome]) -> None:
        # As in `begin`.
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

    def _take_outcome(self, outcome: TaskOutcome) -> None:
        if outcome.kind in ("report", "measurement", "untimed"):
            self._finish(self._read(outcome))
            return
        if outcome.kind == "machine":
            self._engine.avoid(outcome.worker)
            if not self._engine.has_others(set()):
                raise MachineError(f"worker {outcome.worker}: {outcome.text}")
        else:
            self.failed_on.add(outcome.worker)
        if outcome.kind == "lost":
            self._deaths += 1
            if self._deaths == _ATTEMPTS:
                self._finish(self._killed(_ATTEMPTS))
                return
        elif len(self.failed_on) == _ATTEMPTS or not self._engine.has_others(self.failed_on):
            raise EvaluationError(f"worker {outcome.worker}: {outcome.text}")
        self.begin()

    def _finish(self, result: T) -> None:
        self._engine.forget(self.name)
        with suppress(Exception):  # the future was cancelled at this moment
            self.future.set_result(result)

    def _fail(self, error: Exception) -> None:
        self._engine.forget(self.name)
        with suppress(Exception):  # as in `_finish`
            self.future.set_exception(error)


class _Evaluation(_Sent[Report]):
    """The evaluation of one request on a cluster."""

    def __init__(
        self, engine: DaskEngine, request: Request, on_progress: OnProgress, parcel: Parcel
    ) -> None:
        super().__init__(engine, request.title, on_progress)
        self.request = request
        self.parcel = parcel

    def _send(self) -> Task[TaskOutcome]:
        return self._engine.send(self)

    def _read(self, outcome: TaskOutcome) -> Report:
        return Report.from_json(outcome.text)

    def _killed(self, deaths: int) -> Report:
        request = self.request
        why = f"its evaluator process was killed {deaths} times"
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


class _Timing(_Sent[Measurement]):
    """The speed measurement of one plan on a cluster."""

    def __init__(self, engine: DaskEngine, plan: SpeedPlan, parcel: TimingParcel) -> None:
        super().__init__(engine, plan.request.title, lambda _: None)
        self.plan = plan
        self.parcel = parcel

    def _send(self) -> Task[TaskOutcome]:
        return self._engine.send_timing(self)

    def _read(self, outcome: TaskOutcome) -> Measurement:
        if outcome.kind == "untimed":
            raise ContenderError(outcome.text)
        return codec.decode(outcome.text, Measurement)

    def _killed(self, deaths: int) -> Measurement:
        raise ContenderError(
            f"{self.plan.request.title}: the process that timed it was killed {deaths} times"
        )
