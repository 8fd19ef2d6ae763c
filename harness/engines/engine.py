"""What an engine is, and evaluations on one.

Each engine is a file beside this one: a class that has what `Engine` asks for, and `ENGINE`, which
says what it is good for. Nothing else has to know: modules that have an `ENGINE` are found here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from harness.engines.evaluator import EvaluationError
from harness.evaluate import OnProgress, Request
from harness.records.report import Report


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
        """Evaluate a request when its turn comes; the future may raise EvaluationError.

        `on_progress` may be called from another thread.
        """


@dataclass(frozen=True)
class EngineKind:
    """What a module of an engine tells of it.

    Attributes:
        most: Evaluations at a time that it can run, as far as it knows; infinity for any number.
        start: Makes an engine that runs so many at a time.
    """

    most: float
    start: Callable[[int], Engine]


@functools.cache
def known() -> tuple[EngineKind, ...]:
    """The engines in this folder."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    found = (importlib.import_module(f"{__package__}.{module.name}") for module in modules)
    return tuple(module.ENGINE for module in found if hasattr(module, "ENGINE"))


def engine_for(jobs: int, evaluations: int) -> Engine:
    """The least engine for so many evaluations, of which `jobs` may run at a time."""
    at_a_time = max(1, min(jobs, evaluations))
    least = min((kind for kind in known() if kind.most >= at_a_time), key=lambda kind: kind.most)
    return least.start(at_a_time)


def evaluate_all(
    engine: Engine, requests: Sequence[Request], follow: Callable[[Request], OnProgress]
) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Evaluate requests on an engine; each one's place and result, when it is there.

    Args:
        engine: Where.
        requests: What to evaluate.
        follow: Gives what is told of a request's progress, perhaps from another thread.
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
