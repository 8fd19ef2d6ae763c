"""What an engine is, which one is meant, and evaluations on one.

Each engine is a file beside this one: a class that has what `Engine` asks for, and `ENGINE`, which
says what it is good for. Nothing else has to know: modules that have an `ENGINE` are found here,
and users call them by their file's name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import torch

from harness import devices
from harness.compiler.cache import Cache, default_root
from harness.engines.evaluator import EvaluationError
from harness.evaluate import OnProgress, Request
from harness.preflight import prepare
from harness.records.report import Report
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system.device import Device
from harness.system.errors import UsageError


class Engine(Protocol):
    """Where evaluations run. Use as a context manager; leaving it ends what is under way."""

    @property
    def capacity(self) -> int:
        """How many requests it can have before the first of them has ended."""

    def __enter__(self) -> Self:
        """Make it ready."""

    def __exit__(self, *_: object) -> None:
        """End what is under way, at once."""

    def submit(self, request: Request, on_progress: OnProgress) -> Future[Report]:
        """Evaluate a request when its turn comes.

        The future may raise EvaluationError, or MachineError where no other can be evaluated.
        `on_progress` may be called from another thread.
        """

    def measure(self, plan: SpeedPlan) -> Future[Measurement]:
        """Time what a plan names, when nothing else of the engine's runs on that GPU.

        The future may raise what `harness.speed.measure.measure` does, or what `submit`'s does.
        """


@dataclass(frozen=True)
class Hardware:
    """On what an engine's evaluations run.

    Attributes:
        device: Of each.
        jobs: How many at a time, where nobody says it.
        gpu: The GPU's name; empty on the simulator.
    """

    device: Device
    jobs: int
    gpu: str = ""


def this_machine(device: devices.Choice, _scheduler: str = "") -> Hardware:
    """What an engine of this machine runs on.

    Raises:
        harness.devices.DeviceError: the device that is asked for is not here.
    """
    chosen = devices.choose(device)
    gpu = torch.cuda.get_device_name() if chosen == "cuda" else ""
    return Hardware(chosen, devices.default_jobs(chosen), gpu)


@dataclass(frozen=True)
class EngineKind:
    """What a module of an engine tells of it.

    Attributes:
        most: Evaluations at a time that it can run, as far as it knows; infinity for any number.
        start: Makes an engine that runs so many at a time, with the address of a scheduler, or with
            an empty one.
        hardware: On what evaluations run there, for a choice of device and a scheduler's address;
            raises HarnessError where that cannot be.
        is_cluster: Whether it has use for a scheduler's address. Such a one is never taken but by
            its name: what a machine does by itself needs none.
    """

    most: float
    start: Callable[[int, str], Engine]
    hardware: Callable[[devices.Choice, str], Hardware] = this_machine
    is_cluster: bool = False


@dataclass(frozen=True)
class EngineChoice:
    """Which engine is asked for.

    Attributes:
        name: Of its file; empty for the least that will do.
        scheduler: Address of the scheduler of a cluster that is there; empty for none.
    """

    name: str = ""
    scheduler: str = ""

    def hardware(self, device: devices.Choice) -> Hardware:
        """On what its evaluations will run.

        Raises:
            harness.system.errors.HarnessError: There is no such engine, or it cannot run anything;
                the message says why, in one line.
        """
        kind = self._kind()
        if self.scheduler and (kind is None or not kind.is_cluster):
            clusters = " or ".join(sorted(n for n, each in known().items() if each.is_cluster))
            raise UsageError(
                f"a scheduler ({self.scheduler}) is for a cluster; ask for the engine {clusters}"
            )
        return (kind.hardware if kind else this_machine)(device, self.scheduler)

    def prepare(self) -> None:
        """Have ready what every evaluation on this machine needs; asked before the first one.

        Of a cluster that is there, each machine does so when it gets the first one.

        Raises:
            harness.system.errors.MachineError: This machine can evaluate nothing.
        """
        if not self.scheduler:
            prepare(Cache(default_root()))

    def start(self, jobs: int, evaluations: int) -> Engine:
        """The engine for so many evaluations, of which `jobs` may run at a time.

        Raises:
            UsageError: There is no such engine.
        """
        at_a_time = max(1, min(jobs, evaluations))
        return (self._kind() or _least(at_a_time)).start(at_a_time, self.scheduler)

    def start_beside(self, jobs: int) -> Engine:
        """An engine for any number of evaluations, which the caller does not wait for.

        Raises:
            UsageError: There is no such engine.
        """
        kind = self._kind() or min(
            (each for each in known().values() if not each.is_cluster),
            key=lambda each: -each.most,
        )
        return kind.start(jobs, self.scheduler)

    def _kind(self) -> EngineKind | None:
        if self.name and self.name not in known():
            names = ", ".join(sorted(known()))
            raise UsageError(f"{self.name}: no such engine; there are {names}")
        return known()[self.name] if self.name else None


@functools.cache
def known() -> Mapping[str, EngineKind]:
    """The engines in this folder, by the names of their files."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    return {name: module.ENGINE for name, module in found.items() if hasattr(module, "ENGINE")}


def _least(at_a_time: int) -> EngineKind:
    able = (k for k in known().values() if k.most >= at_a_time and not k.is_cluster)
    return min(able, key=lambda kind: kind.most)


def evaluate_all(
    engine: Engine, requests: Sequence[Request], follow: Callable[[Request], OnProgress]
) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Evaluate requests on an engine; each one's place and result, when it is there.

    Args:
        engine: Where.
        requests: What to evaluate.
        follow: Gives what is told of a request's progress, perhaps from another thread.

    Raises:
        harness.system.errors.MachineError: No other request can be evaluated; what is under way has
            ended.
    """
    with engine:
        places: dict[Future[Report], int] = {}
        for place, request in enumerate(requests):
            places[engine.submit(request, follow(request))] = place
            if len(places) >= engine.capacity:
                yield from _ended(places)
        while places:
            yield from _ended(places)


def _ended(places: dict[Future[Report], int]) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Wait until some have ended, and take these out."""
    done, _ = wait(places, return_when=FIRST_COMPLETED)
    for future in done:
        error = future.exception()
        result = error if isinstance(error, EvaluationError) else future.result()
        yield places.pop(future), result
