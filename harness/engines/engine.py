"""The protocol of engines, the choice of an engine, and the evaluation of many requests on it.

Each engine is a module beside this file. The module has a class with the methods of `Engine`, and a
constant `ENGINE` that describes the class. `known` finds all modules with an `ENGINE`, so there is
no list of engines. Users select an engine by the name of its module.
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
    """Context manager that evaluates requests; leaving it ends all running evaluations."""

    @property
    def capacity(self) -> int:
        """Number of requests that the engine accepts before the first of them has ended."""

    def __enter__(self) -> Self:
        """Start the engine."""

    def __exit__(self, *_: object) -> None:
        """End all running evaluations at once."""

    def submit(self, request: Request, on_progress: OnProgress) -> Future[Report]:
        """Queue the evaluation of a request, and return a future of its report.

        The future raises EvaluationError if this request cannot be evaluated. It raises
        MachineError if no other request can be evaluated either. `on_progress` may be called from
        another thread.
        """

    def measure(self, plan: SpeedPlan) -> Future[Measurement]:
        """Time the submissions of a plan while this engine runs nothing else on the same GPU.

        The future raises the errors of `harness.speed.measure.measure`, or those of `submit`.
        """


@dataclass(frozen=True)
class Hardware:
    """The hardware on which an engine evaluates.

    Attributes:
        device: Device of each evaluation: `simulator` or `cuda`.
        jobs: Default number of evaluations at a time.
        gpu: Name of the GPU; empty on the simulator.
    """

    device: Device
    jobs: int
    gpu: str = ""


def this_machine(device: devices.Choice, _scheduler: str = "") -> Hardware:
    """Return the requested device of this machine, the default number of jobs, and the GPU's name.

    Raises:
        harness.devices.DeviceError: The requested device does not exist here.
    """
    chosen = devices.choose(device)
    gpu = torch.cuda.get_device_name() if chosen == "cuda" else ""
    return Hardware(chosen, devices.default_jobs(chosen), gpu)


@dataclass(frozen=True)
class EngineKind:
    """The description of an engine: the constant `ENGINE` of its module.

    Attributes:
        most: Largest number of evaluations that the engine can run at a time; infinity if there is
            no limit.
        start: Function that makes an engine. Its arguments are the number of evaluations at a time,
            and the address of a scheduler or "".
        hardware: Function that returns the engine's hardware, from a choice of device and a
            scheduler's address. It raises HarnessError if the engine cannot be used.
        is_cluster: Whether the engine uses a scheduler's address. A cluster engine is used only if
            the user names it, since one machine does not need it.
    """

    most: float
    start: Callable[[int, str], Engine]
    hardware: Callable[[devices.Choice, str], Hardware] = this_machine
    is_cluster: bool = False


@dataclass(frozen=True)
class EngineChoice:
    """The user's choice of an engine, from the command line or a `Client`.

    Attributes:
        name: Name of the engine's module. If it is empty, the harness chooses the engine: among
            those that can run enough evaluations at a time, the one with the lowest limit.
        scheduler: Address of the scheduler of an existing cluster; empty without an existing
            cluster.
    """

    name: str = ""
    scheduler: str = ""

    def hardware(self, device: devices.Choice) -> Hardware:
        """Return the hardware on which the chosen engine will evaluate.

        Raises:
            harness.system.errors.HarnessError: The engine does not exist or cannot run anything;
                the message gives the reason in one line.
        """
        kind = self._kind()
        if self.scheduler and (kind is None or not kind.is_cluster):
            clusters = " or ".join(sorted(n for n, each in known().items() if each.is_cluster))
            raise UsageError(
                f"scheduler {self.scheduler}: only a cluster has a scheduler; choose the "
                f"engine {clusters}"
            )
        return (kind.hardware if kind else this_machine)(device, self.scheduler)

    def prepare(self) -> None:
        """Build what every evaluation on this machine needs; call this before the first evaluation.

        With an existing cluster this does nothing: each machine prepares itself at its first
        evaluation.

        Raises:
            harness.system.errors.MachineError: This machine cannot evaluate anything.
        """
        if not self.scheduler:
            prepare(Cache(default_root()))

    def start(self, jobs: int, evaluations: int) -> Engine:
        """Return an engine for `evaluations` evaluations, at most `jobs` of them at a time.

        Raises:
            UsageError: No engine has the chosen name.
        """
        at_a_time = max(1, min(jobs, evaluations))
        return (self._kind() or _least(at_a_time)).start(at_a_time, self.scheduler)

    def start_beside(self, jobs: int) -> Engine:
        """Return an engine for any number of evaluations that run while the caller continues.

        Raises:
            UsageError: No engine has the chosen name.
        """
        kind = self._kind() or min(
            (each for each in known().values() if not each.is_cluster),
            key=lambda each: -each.most,
        )
        return kind.start(jobs, self.scheduler)

    def _kind(self) -> EngineKind | None:
        if self.name and self.name not in known():
            names = ", ".join(sorted(known()))
            raise UsageError(f"{self.name}: no such engine; the engines are {names}")
        return known()[self.name] if self.name else None


@functools.cache
def known() -> Mapping[str, EngineKind]:
    """Return all engines, by the names of their modules in this folder."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    return {name: module.ENGINE for name, module in found.items() if hasattr(module, "ENGINE")}


# One evaluation at a time needs no second process, and starting one takes seconds. So the engine
# with the lowest sufficient limit is used.
def _least(at_a_time: int) -> EngineKind:
    able = (k for k in known().values() if k.most >= at_a_time and not k.is_cluster)
    return min(able, key=lambda kind: kind.most)


def evaluate_all(
    engine: Engine, requests: Sequence[Request], follow: Callable[[Request], OnProgress]
) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Evaluate requests on an engine; yield each request's index and result when it is finished.

    Args:
        engine: The engine, which this function starts and ends.
        requests: The requests, in the order in which they are submitted.
        follow: Function that returns a request's progress callback, which may be called from
            another thread.

    Raises:
        harness.system.errors.MachineError: This machine cannot evaluate any further request. All
            running evaluations have been ended.
    """
    with engine:
        # Only `capacity` requests are submitted at a time, because an engine may hold the contents
        # of all of them. The rest follows as evaluations end.
        places: dict[Future[Report], int] = {}
        for place, request in enumerate(requests):
            places[engine.submit(request, follow(request))] = place
            if len(places) >= engine.capacity:
                yield from _ended(places)
        while places:
            yield from _ended(places)


def _ended(places: dict[Future[Report], int]) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Wait until at least one evaluation ends; remove all ended ones, and yield each result."""
    done, _ = wait(places, return_when=FIRST_COMPLETED)
    for future in done:
        error = future.exception()
        result = error if isinstance(error, EvaluationError) else future.result()
        yield places.pop(future), result
