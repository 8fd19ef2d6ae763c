"""What runs on a Dask worker: builds, evaluations, timing, each in a process of its own beside it.

A Dask worker's own process never runs an evaluation: that can be killed when nobody waits for it
any more, and what a submission does to the process that sees to it is not done to the worker.
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
    Luggage,
    Parcel,
    TimingParcel,
    UnpackError,
    unpack,
    unpack_plan,
)
from harness.engines.cluster.software import Software, software
from harness.engines.evaluator import EvaluationError
from harness.engines.processes import Lost, Processes
from harness.evaluate import Progress, Request
from harness.preflight import faults_of_machine
from harness.sandbox import layers
from harness.speed.contender import ContenderError
from harness.system import codec
from harness.system.errors import MachineError
from harness.system.processors import usable_cores

NAME = "harness"
"""Of the plugin, and of its folder."""

Builds = Mapping[str, Mapping[str, bytes]]
"""Finished builds: the files of each, by its key."""


Kind = Literal["report", "measurement", "untimed", "lost", "unlike", "machine", "error"]


@dataclass(frozen=True)
class Outcome:
    """How a task ended; it raises nothing, since what it raises would be tried again blindly.

    Attributes:
        kind: `report` or `measurement`, with its text; `untimed`, where a contender cannot be
            timed; `lost`, where the process that saw to it was killed; `unlike`, where this worker
            has other versions; `machine`, where this one can evaluate nothing; else `error`.
        text: The report or measurement, or why there is none.
        worker: Address of the worker.
    """

    kind: Kind
    text: str
    worker: str


@dataclass(frozen=True)
class Order:
    """What a task is told beside its files.

    Attributes:
        sender: The versions that the sender has.
        topic: Where progress is told.
        name: Of the evaluation, among those of the topic.
    """

    sender: Software
    topic: str
    name: str


@dataclass(frozen=True)
class Machine:
    """What a worker tells of itself.

    Attributes:
        software: Its versions.
        gpu: Name of its GPU; empty where torch sees none.
        together: How many evaluations its GPU has room for at a time; 0 without one.
    """

    software: Software
    gpu: str
    together: int


def describe() -> Machine:
    """This worker's machine."""
    if not torch.cuda.is_available():
        return Machine(software(), "", 0)
    return Machine(software(), torch.cuda.get_device_name(), default_jobs("cuda"))


def carry(luggage: Luggage) -> Luggage:
    """What many requests have in common, as a task of its own: sent to each worker once."""
    return luggage


def build(parcel: Parcel, luggage: Luggage, order: Order) -> Builds:
    """What importing the submission has built; nothing where the evaluation has to say why."""
    with _evaluator() as (slots, engine):
        if software().why_other(order.sender):
            return {}
        try:
            # For a GPU it is the same, and a machine without one can make it.
            request = replace(slots.unpacked(parcel, luggage), device="simulator")
            folders = engine.build(request, _teller(order)).result()
            return {folder.name: _files_of(folder) for folder in folders}
        except (EvaluationError, MachineError, UnpackError, OSError):
            return {}


def evaluate(parcel: Parcel, luggage: Luggage, builds: Builds, order: Order) -> Outcome:
    """Evaluate a request with what is built already."""

    def run(slots: Slots, engine: Processes) -> tuple[Kind, str]:
        request = slots.unpacked(parcel, luggage)
        _prepare(request, [builds])
        report = engine.submit(request, _teller(order)).result()
        return "report", replace(report, path=str(parcel.asked.submission)).to_json()

    return _outcome(order, run)


def measure(
    parcel: TimingParcel, luggage: Luggage, builds: Sequence[Builds], order: Order
) -> Outcome:
    """Time what a plan names, with what is built already, on a GPU that no other task has."""

    def run(slots: Slots, engine: Processes) -> tuple[Kind, str]:
        plan = unpack_plan(parcel, lambda each: slots.unpacked(each, luggage))
        _prepare(plan.request, builds)
        return "measurement", codec.encode(engine.measure(plan).result())

    return _outcome(order, run)


def _outcome(order: Order, run: Callable[[Slots, Processes], tuple[Kind, str]]) -> Outcome:
    """How something ended, unless this worker is not as the sender."""
    with _evaluator() as (slots, engine):
        address = slots.worker.address
        other = software().why_other(order.sender)
        if other:
            return Outcome("unlike", other, address)
        try:
            with faults_of_machine():
                kind, text = run(slots, engine)
        except MachineError as error:
            return Outcome("machine", str(error), address)
        except Lost as lost:
            return Outcome("lost", str(lost), address)
        except ContenderError as error:
            return Outcome("untimed", str(error), address)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return Outcome("error", said, address)
        except (EvaluationError, UnpackError) as error:
            return Outcome("error", str(error), address)
        return Outcome(kind, text, address)


def _prepare(request: Request, builds: Iterable[Builds]) -> None:
    """Have builds in this machine's cache.

    Raises:
        EvaluationError: Strangers' files may not run here.
        OSError: They cannot be written.
    """
    if request.untrusted and (reason := _open_layers()):
        raise EvaluationError(f"--untrusted: {reason}")
    for each in builds:
        for key, files in each.items():
            Cache(request.cache).adopt(key, files)


class Slots(WorkerPlugin):
    """The evaluator processes of one Dask worker, one for each task that runs."""

    def __init__(self) -> None:
        self._idle: list[Processes] = []
        self._running: dict[object, Processes] = {}
        self._lock = threading.Lock()

    def setup(self, worker: Worker) -> None:
        """Belong to a worker."""
        self.worker = worker
        self._folder = Path(worker.local_directory) / NAME
        # A local cluster has a worker for each GPU, all of them in one process.
        gpu = str(worker.name).partition(GPU_WORKER)[2]
        self._variables = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}

    def teardown(self, worker: Worker) -> None:
        """End every process."""
        del worker
        with self._lock:
            engines = [*self._idle, *self._running.values()]
        for engine in engines:
            engine.close()

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """End what nobody waits for any more."""
        if start == "executing" and finish in ("cancelled", "released"):
            with self._lock:
                engine = self._running.get(key)
            if engine:
                # It takes a moment, and this is the worker's event loop.
                threading.Thread(target=engine.close, daemon=True).start()

    @contextmanager
    def lend(self, key: object) -> Iterator[Processes]:
        """An evaluator for a task, which is kept for the next one unless it was ended."""
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

    def unpacked(self, parcel: Parcel, luggage: Luggage) -> Request:
        """The request with paths of this machine; raises as `unpack` does."""
        cores = max(1, usable_cores() // self.worker.state.nthreads)
        request = unpack(parcel, luggage, self._folder)
        return replace(request, cache=default_root(), cores=cores)


GPU_WORKER = "gpu-"
"""How a local cluster's workers are called, before the number of their GPU."""

_installing = threading.Lock()


@contextmanager
def _evaluator() -> Iterator[tuple[Slots, Processes]]:
    """An evaluator for the task that runs in this thread."""
    worker = get_worker()
    with _installing:
        if NAME not in worker.plugins:
            # The first task brings it: so it is there on workers that come later, too.
            sync(worker.loop, worker.plugin_add, Slots(), NAME)
    slots = worker.plugins[NAME]
    assert isinstance(slots, Slots)  # noqa: S101 - for the type checker
    with slots.lend(worker.get_current_task()) as engine:
        yield slots, engine


def _teller(order: Order) -> Callable[[Progress], None]:
    """Tells the sender of progress, without pictures: the report has them."""
    worker = get_worker()

    def tell(progress: Progress) -> None:
        if progress.case:
            progress = replace(progress, case=replace(progress.case, picture=None))
        worker.log_event(order.topic, [order.name, codec.encode(progress)])

    return tell


def _files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@functools.cache
def _open_layers() -> str:
    """Why strangers' files may not run on this machine; tried once, since it takes seconds."""
    return layers.why_not()
