"""Timing of a plan's submissions, together with the baselines, on this machine's GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from harness.evaluate import settings_for
from harness.gpu.driver import DriverError
from harness.gpu.state import Monitor
from harness.gpu.window import end_of, own_window
from harness.judging.conversation import Conversation
from harness.messages.kinds import BASELINE_PRECISIONS, BaselineKind
from harness.problems.discovery import discover
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem, load
from harness.problems.values import output_shapes, runs_for, weights_for
from harness.speed.contender import (
    Contender,
    ContenderError,
    TimedBaseline,
    TimedSubmission,
    prepare_baseline,
)
from harness.speed.floor import least_work, measured_rates
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.speed.rounds import Stage
from harness.speed.speed_run import SpeedRun
from harness.worker.baseline_worker import BaselineWorker
from harness.worker.device_worker import DeviceWorker
from harness.worker.supervisor import Worker, WorkerFailure

W = TypeVar("W", bound=Worker)


def baseline_name(kind: BaselineKind, precision: str) -> str:
    """Return the name of a baseline in results and tables, such as "eager tf32"."""
    return f"{kind} {precision}"


def measure(plan: SpeedPlan) -> Measurement:
    """Time all submissions of a plan and the baselines in the same rounds.

    A baseline is left out if it fails or if its first call takes too long. `Measurement.left_out`
    then says why.

    Raises:
        ContenderError: A submission cannot be timed, returned a wrong output, or lost its worker;
            or processes cannot share memory on this GPU.
        OSError: A file cannot be read.
        ValueError: The problem's file is not a reference.
    """
    with _one_kind_of_error():
        return _measure(plan)


@contextmanager
def _one_kind_of_error() -> Iterator[None]:
    try:
        yield
    except (WorkerFailure, DriverError) as error:
        raise ContenderError(str(error)) from None


def _measure(plan: SpeedPlan) -> Measurement:
    problem = load(plan.request.problem)
    if problem.outputs is not None:
        raise ContenderError(
            f"{problem.name} returns several outputs; speed is measured only for "
            "references with one output tensor"
        )
    case = _native_case(plan, problem)
    weights = weights_for(problem, case, runs_for(problem)[0].weights)
    (output,) = output_shapes(problem, case)
    output_bytes = math.prod(output) * torch.float32.itemsize
    weight_bytes = sum(weight.numel() * weight.itemsize for weight in weights.values())
    work = least_work(problem, case, weight_bytes, output_bytes)
    with ExitStack() as stack:
        contenders = stack.enter_context(_Contenders(plan, problem, case, weights, output))
        monitor = stack.enter_context(Monitor())
        rates = measured_rates()
        torch.cuda.empty_cache()
        inputs = [
            torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")
            for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
        ]
        # The window gets its final size here. A later resize would free memory that other processes
        # have open.
        own_window().make_room(end_of(inputs) + 2 * output_bytes)
        stack.callback(own_window().close)
        speed_run = SpeedRun(
            plan, problem, case, weights, Stage(inputs), output, rates, work, monitor
        )
        entrants = contenders.submissions()
        baselines = contenders.baselines()
        return speed_run.run(entrants, baselines, contenders.left_out)


class _Contenders:
    """Context manager that starts a worker for each submission and baseline at the same time."""

    def __init__(
        self,
        plan: SpeedPlan,
        problem: Problem,
        case: Case,
        weights: Mapping[str, Tensor],
        output: tuple[int, ...],
    ) -> None:
        self.left_out: list[str] = []
        self._plan = plan
        self._problem = problem
        self._case = case
        self._weights = weights
        self._output = output
        self._settings = settings_for(plan.request)
        self._stack = ExitStack()
        self._submissions: list[DeviceWorker] = []
        self._baselines: dict[BaselineKind, BaselineWorker] = {}

    def __enter__(self) -> _Contenders:
        with self._stack:
            deadlines = self._plan.request.deadlines
            self._submissions = [
                self._begin(
                    DeviceWorker(
                        replace(self._settings, submission=entry.path.resolve()),
                        deadlines,
                        lambda _event: None,
                    )
                )
                for entry in self._plan.entries
            ]
            self._baselines = {
                kind: self._begin(BaselineWorker(self._problem.path, kind, deadlines))
                for kind in self._plan.kinds
            }
            # All workers started, so `__exit__` closes them, not this `with` statement.
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, worker: W) -> W:
        self._stack.callback(worker.close)
        return worker

    def submissions(self) -> list[Contender]:
        """Return the submissions, ready to be timed; raise the errors of `TimedSubmission`."""
        contenders: list[Contender] = []
        for entry, worker in zip(self._plan.entries, self._submissions, strict=True):
            worker.start()
            contenders.append(
                TimedSubmission(
                    entry.name,
                    Conversation(worker, self._problem, self._case),
                    self._problem,
                    self._case,
                    self._weights,
                    self._output,
                )
            )
        return contenders

    def baselines(self) -> list[Contender]:
        """Return the baselines, ready to be timed; add a line to `left_out` for each that fails."""
        contenders: list[Contender] = []
        for kind, worker in self._baselines.items():
            try:
                worker.start()
                prepare_baseline(worker, self._case, self._weights)
            except (ContenderError, WorkerFailure) as error:
                self.left_out.append(f"{kind} is not measured: {error}")
                continue
            contenders += [
                TimedBaseline(baseline_name(kind, precision), worker, precision, self._output)
                for precision in BASELINE_PRECISIONS
            ]
        return contenders


def _native_case(plan: SpeedPlan, problem: Problem) -> Case:
    found = discover([plan.request.submission])
    if found.rejected:
        raise ContenderError(f"{plan.request.submission.name}: {found.rejected[0].message}")
    (case,) = cases_for(problem, found.submissions[0], "own", "cuda", seed=plan.request.seed)
    return case
