"""Time submissions and baselines together on this machine's GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from harness.evaluate import settings_for
from harness.gpu.driver import Driver
from harness.gpu.shared import Exported, Shape
from harness.gpu.state import Monitor
from harness.grid import Case, cases_for
from harness.problem import Problem
from harness.speed.contender import (
    Contender,
    ContenderError,
    ask,
    prepare_baseline,
    prepare_submission,
)
from harness.speed.course import Course
from harness.speed.floor import measured_rates, work_of
from harness.speed.measurement import Measurement
from harness.speed.plan import Plan
from harness.speed.rounds import Stage
from harness.values import runs_for, values_for
from harness.worker.baselines import Kind
from harness.worker.settings import Settings
from harness.worker.supervisor import Worker, WorkerFailure

PRECISIONS = ("fp32", "tf32")


def baseline_name(kind: Kind, precision: str) -> str:
    """How a baseline is called in results and tables."""
    return f"{kind} {precision}"


def measure(plan: Plan, say: Callable[[str], None] = lambda _: None) -> Measurement:
    """Time all contenders of a plan in the same rounds.

    A baseline that fails or takes too long for its first call is left out, and `say` is told.

    Raises:
        ContenderError: A submission cannot be timed, or gave a wrong output.
        WorkerFailure: A submission's worker died or took too long.
        harness.gpu.driver.DriverError: Two processes cannot share memory on this GPU.
    """
    case = _native_case(plan)
    weights = values_for(plan.problem, _tiny(case), runs_for(plan.problem)[0]).weights
    driver = Driver()
    output = _output_shape(plan.problem, case)
    shapes = [
        Shape(tuple(shape), getattr(torch, dtype))
        for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
    ]
    weight_bytes = sum(weight.numel() * weight.itemsize for weight in weights.values())
    with ExitStack() as stack:
        monitor = stack.enter_context(Monitor())
        rates = measured_rates()
        torch.cuda.empty_cache()
        shared = stack.enter_context(Exported(driver, [*shapes, Shape(output, torch.float32)]))
        work = work_of(plan.problem, case, weight_bytes, shared.tensors[-1])
        course = Course(plan, case, weights, Stage(driver, shared.tensors), rates, work, monitor)
        entrants = stack.enter_context(_submissions(plan, case, weights, shared))
        baselines = stack.enter_context(_baselines(plan, case, weights, shared, say))
        return course.run(entrants, baselines, say)


@contextmanager
def _submissions(
    plan: Plan, case: Case, weights: Mapping[str, Tensor], shared: Exported
) -> Iterator[list[Contender]]:
    with ExitStack() as stack:
        entrants = []
        for entry in plan.entries:
            settings = settings_for(replace(plan.request, submission=entry.path))
            worker = stack.enter_context(
                Worker(settings, plan.request.deadlines, lambda _event: None)
            )
            ask(worker, "import", {})
            prepare_submission(worker, case, weights, shared)
            entrants.append(Contender(entry.name, worker, {}))
        yield entrants


@contextmanager
def _baselines(
    plan: Plan,
    case: Case,
    weights: Mapping[str, Tensor],
    shared: Exported,
    say: Callable[[str], None],
) -> Iterator[list[Contender]]:
    with ExitStack() as stack:
        contenders = []
        for kind in plan.kinds:
            settings: Settings = replace(
                settings_for(plan.request), submission=plan.problem.path, baseline=kind
            )
            try:
                worker = stack.enter_context(
                    Worker(settings, plan.request.deadlines, lambda _event: None)
                )
                prepare_baseline(worker, case, weights, shared)
            except (ContenderError, WorkerFailure) as error:
                say(f"{kind} is left out: {error}")
                continue
            contenders += [
                Contender(baseline_name(kind, precision), worker, {"precision": precision})
                for precision in PRECISIONS
            ]
        yield contenders


def _native_case(plan: Plan) -> Case:
    cases = cases_for(plan.problem, plan.submission, "quick", "cuda", seed=plan.request.seed)
    return next(case for case in cases if case.label == "native")


def _tiny(case: Case) -> Case:
    """The same constructor arguments with next to no input: only the weights are wanted."""
    return replace(case, input_shapes=tuple((1,) * len(shape) for shape in case.input_shapes))


def _output_shape(problem: Problem, case: Case) -> tuple[int, ...]:
    with torch.device("meta"):
        model = problem.model(**case.arguments)
        inputs = [
            torch.empty(shape, dtype=getattr(torch, dtype))
            for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
        ]
        output = model(*inputs)
    return tuple(output.shape)
