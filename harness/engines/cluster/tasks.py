"""Tasks of a Dask worker: builds, evaluations and timings, each in a process beside the worker.

A Dask worker never evaluates in its own process. So the worker can kill an evaluation that is no
longer needed, and a submission that kills its process does not kill the worker.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from distributed import Worker, WorkerPlugin, get_worker
from distributed.utils import sync

from harness.compiler.cache import Cache, default_root
from harness.devices import default_jobs
from harness.engines.cluster.parcel import (
    Parcel,
    ReadableFiles,
    TimingParcel,
    UnpackError,
    unpack,
    unpack_plan,
)
from harness.engines.cluster.software import Software, software
from harness.engines.evaluator import EvaluationError
from harness.engines.processes import Lost, Processes
from harness.evaluate import Progress, Request
from harness.preflight import raising_machine_errors
from harness.sandbox import layers
from harness.speed.contender import ContenderError
from harness.system import codec
from harness.system.errors import MachineError
from harness.system.processors import usable_cores

NAME = "harness"
"""Name of the Dask plugin `EvaluatorPool`, and of its folder on a worker."""

Builds = Mapping[str, Mapping[str, bytes]]
"""Finished builds: for the cache key of each, the contents of its files by name."""


Kind = Literal["report", "measurement", "untimed", "lost", "unlike", "machine", "error"]


@dataclass(frozen=True)
class TaskOutcome:
    """The result of a task, or the reason why the task failed.

    A task raises nothing, because Dask would retry after any exception.

    Attributes:
        kind: `report` or `measurement` if the task succeeded; `untimed` if a submission cannot be
            timed; `lost` if the evaluator process died; `unlike` if the worker's versions differ
            from the sender's; `machine` if the worker's machine cannot evaluate anything; else
            `error`.
        text: The report or measurement as JSON; for the other kinds, the reason.
        worker: Address of the worker that ran the task.
    """

    kind: Kind
    text: str
    worker: str


@dataclass(frozen=True)
class TaskInfo:
    """Data that a task needs in addition to its files.

    Attributes:
        sender: Software versions of the sender.
        topic: Dask topic to which the worker sends progress.
        name: Name of the evaluation or timing within the topic.
    """

    sender: Software
    topic: str
    name: str


@dataclass(frozen=True)
class WorkerMachine:
    """The software and the GPU of a worker's machine.

    Attributes:
        software: Versions of the software.
        gpu: Name of the GPU; empty if torch sees none.
        together: Number of evaluations that fit on the GPU at a time; 0 without a GPU.
    """

    software: Software
    gpu: str
    together: int


def describe() -> WorkerMachine:
    """Return the software versions and the GPU of the machine that this worker runs on."""
    if not torch.cuda.is_available():
        return WorkerMachine(software(), "", 0)
    return WorkerMachine(software(), torch.cuda.get_device_name(), default_jobs("cuda"))


def carry(luggage: ReadableFiles) -> ReadableFiles:
    """Return the readable files unchanged.

    As the result of a Dask task, they are sent to each worker only once.
    """
    return luggage


def build(parcel: Parcel, luggage: ReadableFiles, order: TaskInfo) -> Builds:
    """Build a submission, and return the files of each build; return {} if it cannot be built here.

    The task that evaluates the submission then reports the reason.
    """
    with _evaluator() as (slots, engine):
        if software().why_other(order.sender):
            return {}
        try:
            # A build is the same for a GPU, and a machine without one can make it.
            request = replace(slots.unpacked(parcel, luggage), device="simulator")
            folders = engine.build(request, _teller(order)).result()
            return {folder.name: _files_of(folder) for folder in folders}
        except (EvaluationError, MachineError, UnpackError, OSError):
            return {}


def evaluate(
    parcel: Parcel, luggage: ReadableFiles, builds: Builds, order: TaskInfo
) -> TaskOutcome:
    """Evaluate a request, using finished builds of its submission, and return the outcome."""

    def run(slots: EvaluatorPool, engine: Processes) -> tuple[Kind, str]:
        request = slots.unpacked(parcel, luggage)
        _prepare(request, [builds])
        report = engine.submit(request, _teller(order)).result()
        return "report", replace(report, path=str(parcel.asked.submission)).to_json()

    return _outcome(order, run)


def measure(
    parcel: TimingParcel, luggage: ReadableFiles, builds: Sequence[Builds], order: TaskInfo
) -> TaskOutcome:
    """Time a plan's submissions, using finished builds, on a GPU that no other task uses."""

    def run(slots: EvaluatorPool, engine: Processes) -> tuple[Kind, str]:
        plan = unpack_plan(parcel, lambda each: slots.unpacked(each, luggage))
        _prepare(plan.request, builds)
        return "measurement", codec.encode(engine.measure(plan).result())

    return _outcome(order, run)


def _outcome(
    order: TaskInfo, run: Callable[[EvaluatorPool, Processes], tuple[Kind, str]]
) -> TaskOutcome:
    """Call `run`, and return its result as an outcome.

    If `run` raises an error, or the versions differ from the sender's, the outcome has the reason
    instead.
    """
    with _evaluator() as (slots, engine):
        address = slots.worker.address
        other = software().why_other(order.sender)
        if other:
            return TaskOutcome("unlike", other, address)
        try:
            with raising_machine_errors():
                kind, text = run(slots, engine)
        except MachineError as error:
            return TaskOutcome("machine", str(error), address)
        except Lost as lost:
            return TaskOutcome("lost", str(lost), address)
        except ContenderError as error:
            return TaskOutcome("untimed", str(error), address)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return TaskOutcome("error", said, address)
        except (EvaluationError, UnpackError) as error:
            return TaskOutcome("error", str(error), address)
        return TaskOutcome(kind, text, address)


def _prepare(request: Request, builds: Iterable[Builds]) -> None:
    """Check that untrusted files may run here, and put builds into this machine's cache.

    Raises:
        EvaluationError: The request is untrusted, and this machine lacks a layer of the sandbox.
        OSError: The builds cannot be written.
    """
    if request.untrusted and (reason := _why_untrusted_refused()):
        raise EvaluationError(f"--untrusted: {reason}")
    for each in builds:
        for key, files in each.items():
            Cache(request.cache).adopt(key, files)


class EvaluatorPool(WorkerPlugin):
    """The evaluator processes of one Dask worker, one for each running task."""

    def __init__(self) -> None:
        self._idle: list[Processes] = []
        self._running: dict[object, Processes] = {}
        self._lock = threading.Lock()

    def setup(self, worker: Worker) -> None:
        """Attach this plugin to a Dask worker.

        In a local cluster, the worker's name selects its GPU.
        """
        self.worker = worker
        self._folder = Path(worker.local_directory) / NAME
        # A local cluster has one worker for each GPU, all in one process, so the name selects the
        # GPU.
        gpu = str(worker.name).partition(GPU_WORKER)[2]
        self._variables = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}

    def teardown(self, worker: Worker) -> None:
        """End every evaluator process of the worker."""
        del worker
        with self._lock:
            engines = [*self._idle, *self._running.values()]
        for engine in engines:
            engine.close()

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """End the evaluator process of a running task that was cancelled or released."""
        if start == "executing" and finish in ("cancelled", "released"):
            with self._lock:
                engine = self._running.get(key)
            if engine:
                # Closing takes a moment, and this runs in the worker's event loop.
                threading.Thread(target=engine.close, daemon=True).start()

    @contextmanager
    def lend(self, key: object) -> Iterator[Processes]:
        """Yield an evaluator for the task `key`; later tasks reuse it unless it was closed."""
        with self._lock:
            engine = self._idle.pop() if self._idle else Processes(1, self._variables)
            self._running[key] = engine
        try:
            yield engine
        finally:
            with self._lock:
                del self._running[key]
                if not engine.is_closed:
                    self._idle.append(engine)

    def unpacked(self, parcel: Parcel, luggage: ReadableFiles) -> Request:
        """Write a parcel's files; return the request with paths of this machine.

        It raises the errors of `unpack`.
        """
        cores = max(1, usable_cores() // self.worker.state.nthreads)
        request = unpack(parcel, luggage, self._folder)
        return replace(request, cache=default_root(), cores=cores)


GPU_WORKER = "gpu-"
"""Prefix of the names of a local cluster's workers, before the number of their GPU."""

_installing = threading.Lock()


@contextmanager
def _evaluator() -> Iterator[tuple[EvaluatorPool, Processes]]:
    """Yield this worker's pool, and an evaluator from it for the task that runs in this thread."""
    worker = get_worker()
    with _installing:
        if NAME not in worker.plugins:
            # The first task installs the plugin, so workers that join later get it too.
            sync(worker.loop, worker.plugin_add, EvaluatorPool(), NAME)
    slots = worker.plugins[NAME]
    assert isinstance(slots, EvaluatorPool)  # noqa: S101 - for the type checker
    with slots.lend(worker.get_current_task()) as engine:
        yield slots, engine


def _teller(order: TaskInfo) -> Callable[[Progress], None]:
    """Return a callback that sends progress to the sender, without the pictures in case reports."""
    worker = get_worker()

    def tell(progress: Progress) -> None:
        if progress.case:
            progress = replace(progress, case=replace(progress.case, picture=None))
        worker.log_event(order.topic, [order.name, codec.encode(progress)])

    return tell


def _files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@functools.cache
def _why_untrusted_refused() -> str:
    """Return why this machine cannot run untrusted files, or ""; the result is cached."""
    return layers.why_not()
