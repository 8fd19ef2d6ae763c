"""Time submissions and baselines together on this machine's GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.evaluate import settings_for
from harness.gpu.driver import Driver
from harness.gpu.state import Monitor
from harness.judging.conversation import Conversation
from harness.messages.kinds import BASELINE_PRECISIONS, BaselineKind
from harness.problems.grid import Case, cases_for
from harness.problems.values import output_shape, runs_for, weights_for
from harness.speed.contender import (
    Contender,
    ContenderError,
    prepare_baseline,
    prepare_submission,
)
from harness.speed.floor import least_work, measured_rates
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.speed.rounds import Stage
from harness.speed.speed_run import SpeedRun
from harness.worker.shared import Exported, Shape
from harness.worker.supervisor import Worker, WorkerFailure


def baseline_name(kind: BaselineKind, precision: str) -> str:
    """How a baseline is called in results and tables."""
    return f"{kind} {precision}"


def measure(plan: SpeedPlan, say: Callable[[str], None] = lambda _: None) -> Measurement:
    """Time all contenders of a plan in the same rounds.

    A baseline that fails or takes too long for its first call is left out, and `say` is told.

    Raises:
        ContenderError: A submission cannot be timed, or gave a wrong output.
        WorkerFailure: A submission's worker died or took too long.
        harness.gpu.driver.DriverError: Two processes cannot share memory on this GPU.
    """
    case = _native_case(plan)
    weights = weights_for(plan.problem, case, runs_for(plan.problem)[0].weights)
    driver = Driver()
    output = output_shape(plan.problem, case)
    shapes = [
        Shape(tuple(shape), getattr(torch, dtype))
        for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
    ]
    weight_bytes = sum(weight.numel() * weight.itemsize for weight in weights.values())
    with ExitStack() as stack:
        contenders = stack.enter_context(_Contenders(plan))
        monitor = stack.enter_context(Monitor())
        rates = measured_rates()
        torch.cuda.empty_cache()
        shared = stack.enter_context(Exported(driver, [*shapes, Shape(output, torch.float32)]))
        work = least_work(plan.problem, case, weight_bytes, shared.tensors[-1])
        speed_run = SpeedRun(plan, case, weights, Stage(driver, shared), rates, work, monitor)
        entrants = contenders.submissions(case, weights, shared)
        baselines = contenders.baselines(case, weights, shared, say)
        return speed_run.run(entrants, baselines, say)


class _Contenders:
    """The contenders' workers, which start up side by side. Use as a context manager."""

    def __init__(self, plan: SpeedPlan) -> None:
        self._plan = plan
        # Timed calls are made in the worker itself, whose extensions are compiled for the GPU.
        self._settings = settings_for(plan.request, without_device=True)
        self._stack = ExitStack()
        self._submissions: list[Worker] = []
        self._baselines: dict[BaselineKind, Worker] = {}

    def __enter__(self) -> _Contenders:
        with self._stack:
            self._submissions = [
                self._begin(submission=entry.path.resolve()) for entry in self._plan.entries
            ]
            self._baselines = {
                kind: self._begin(submission=self._plan.problem.path, baseline=kind)
                for kind in self._plan.kinds
            }
            # Nothing went wrong: they live until the end.
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, **changes: Any) -> Worker:
        settings = replace(self._settings, **changes)
        worker = Worker(settings, self._plan.request.deadlines, lambda _event: None)
        self._stack.callback(worker.close)
        return worker

    def submissions(
        self, case: Case, weights: Mapping[str, Tensor], shared: Exported
    ) -> list[Contender]:
        """Ready to be called; raises what `prepare_submission` does."""
        contenders = []
        for entry, worker in zip(self._plan.entries, self._submissions, strict=True):
            worker.start()
            conversation = Conversation(worker, case)
            prepare_submission(conversation, weights, shared)
            contenders.append(Contender(entry.name, conversation, {}))
        return contenders

    def baselines(
        self,
        case: Case,
        weights: Mapping[str, Tensor],
        shared: Exported,
        say: Callable[[str], None],
    ) -> list[Contender]:
        """Those that can be constructed; `say` is told of the others."""
        contenders = []
        for kind, worker in self._baselines.items():
            conversation = Conversation(worker, case)
            try:
                worker.start()
                prepare_baseline(conversation, weights, shared)
            except (ContenderError, WorkerFailure) as error:
                say(f"{kind} is left out: {error}")
                continue
            contenders += [
                Contender(baseline_name(kind, precision), conversation, {"precision": precision})
                for precision in BASELINE_PRECISIONS
            ]
        return contenders


def _native_case(plan: SpeedPlan) -> Case:
    (case,) = cases_for(plan.problem, plan.submission, "own", "cuda", seed=plan.request.seed)
    return case
