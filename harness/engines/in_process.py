"""The engine that runs one evaluation at a time, in this process.

Another process would take seconds to start, and would not make a single evaluation faster.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import torch

from harness.engines.engine import EngineKind
from harness.engines.evaluator import EvaluationError, attempt, attempt_measure
from harness.evaluate import OnProgress, Request
from harness.records.report import Report
from harness.speed.contender import ContenderError
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system.errors import MachineError

T = TypeVar("T")


class InProcess:
    """An engine that evaluates in the thread that calls `submit`."""

    capacity = 1

    def __enter__(self) -> InProcess:
        self._threads = torch.get_num_threads()
        # The same number of threads as in an evaluator's process gives the same numbers.
        torch.set_num_threads(1)
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._threads)

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Evaluate a request before returning; the returned future is complete."""
        return _ended(lambda: attempt(request, on_progress))

    def measure(self, plan: SpeedPlan) -> Future[Measurement]:
        """Time the submissions of a plan before returning; the returned future is complete."""
        return _ended(lambda: attempt_measure(plan))


def _ended(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        # A reference's prints must not mix with the caller's output.
        with contextlib.redirect_stdout(sys.stderr):
            future.set_result(function())
    except (ContenderError, EvaluationError, MachineError) as error:
        future.set_exception(error)
    return future


ENGINE = EngineKind(1, lambda _jobs, _scheduler: InProcess())
