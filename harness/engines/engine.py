"""What an engine is, and evaluations on one. Each engine is a file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol, Self

from harness.engines.evaluator import EvaluationError
from harness.engines.in_process import InProcess
from harness.engines.processes import Processes
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


def engine_for(jobs: int, evaluations: int) -> Engine:
    """The engine for so many evaluations, of which `jobs` may run at a time."""
    at_a_time = min(jobs, evaluations)
    return Processes(at_a_time) if at_a_time > 1 else InProcess()


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
