"""Contenders (the submissions and baselines that a measurement times), each in its own worker."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from harness.finding import Finding
from harness.gpu.window import end_of, own_window
from harness.judging.answered import Output, OwnWork, outputs_of, wrong_kind
from harness.judging.conversation import Conversation, StepFault
from harness.judging.integrity import changed_values
from harness.judging.operator_work import Operands
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.values import unused_weights
from harness.worker.baseline_worker import BaselineWorker
from harness.worker.device_worker import ForwardCall, ForwardOutcome
from harness.worker.steps import Time
from harness.worker.supervisor import StepFailed


class ContenderError(RuntimeError):
    """A submission or baseline cannot be timed; the message gives the reason in one line."""


@dataclass(frozen=True)
class Sample:
    """The time and the output of one timed call.

    Attributes:
        milliseconds: Device time of the call's work, in ms.
        output: The output, on the GPU. It is valid until the next call of any submission or
            baseline.
        findings: Findings of the sanitizers and integrity checks about the call.
    """

    milliseconds: float
    output: Tensor
    findings: tuple[Finding, ...] = ()


class Contender(Protocol):
    """A submission or a baseline (the reference in one mode) whose calls can be timed."""

    name: str

    def time(
        self, inputs: Sequence[Tensor], *, moved: bool, seconds: float | None = None
    ) -> Sample:
        """Time one call on the GPU, and return its time and output.

        Args:
            inputs: The inputs, on the GPU.
            moved: Whether the inputs must be stored at other addresses than in the call before.
            seconds: The deadline of this call; None for the default deadline of a worker's step.

        Raises:
            ContenderError: The call raised an exception or returned something invalid.
            WorkerFailure: The worker died or took too long.
        """


class TimedSubmission:
    """A submission to time; its device process makes the kernel launches and times them.

    Raises (when it is made):
        ContenderError: The submission raises an exception, or its parameters do not fit the
            reference's weights.
        WorkerFailure: Its worker died or took too long.
    """

    def __init__(
        self,
        name: str,
        conversation: Conversation,
        problem: Problem,
        case: Case,
        weights: Mapping[str, Tensor],
        output_shape: Sequence[int],
    ) -> None:
        """Import the submission and construct its `ModelNew` with the reference's weights."""
        self.name = name
        self._conversation = conversation
        self._elements = math.prod(output_shape)
        self._own_work = OwnWork(problem, case, conversation.source)
        self._is_first = True
        with _faults():
            conversation.import_submission()
            elements = sum(weight.numel() for weight in weights.values())
            constructed = conversation.construct(elements=elements)
            conversation.match(weights, constructed, lambda: unused_weights(problem))
            self._weights = conversation.send_weights(weights)
        self._given_weights = tuple(weights.values())

    def time(
        self, inputs: Sequence[Tensor], *, moved: bool, seconds: float | None = None
    ) -> Sample:
        """Time one call, and make the same integrity checks as on an untimed call."""
        how = ForwardCall(timing=True, in_new_memory=moved)
        with _faults():
            called = self._conversation.call(how, inputs, elements=self._elements, seconds=seconds)
        fault = wrong_kind(called, None)
        if fault:
            raise ContenderError(f"{self.name}: {fault}")
        (output,) = outputs_of(called)
        output = Output(output.value.to("cuda"), output.writers.to("cuda"), output.address)
        findings = [
            *called.findings,
            *changed_values(called.evidence, inputs, self._weights),
            *self._judged(called, output, inputs),
        ]
        return Sample(called.evidence.milliseconds, output.value, tuple(findings))

    def _judged(
        self, called: ForwardOutcome, output: Output, inputs: Sequence[Tensor]
    ) -> Sequence[Finding]:
        # Every timed call is judged, so that no call can skip the work that a checked call does.
        operands = Operands.of(inputs, self._given_weights)
        judged = self._own_work.judge(
            called, [output], operands, is_dense=True, is_first=self._is_first
        )
        self._is_first = False
        return judged.findings


class TimedBaseline:
    """The reference, timed in one mode and one precision (fp32 or tf32) as a baseline.

    It raises the same errors as `TimedSubmission`.
    """

    def __init__(
        self, name: str, worker: BaselineWorker, precision: str, output_shape: Sequence[int]
    ) -> None:
        """Store the worker, in which `prepare_baseline` must have constructed `Model` before."""
        self.name = name
        self._worker = worker
        self._precision = precision
        self._output_bytes = math.prod(output_shape) * torch.float32.itemsize

    def time(
        self, inputs: Sequence[Tensor], *, moved: bool, seconds: float | None = None
    ) -> Sample:
        """Time one call; `moved` is ignored.

        The inputs of a baseline are always at the start of the GPU memory shared with its worker.
        """
        del moved
        window = own_window()
        placed = window.put(inputs, room=self._output_bytes)
        asked = Time(self._precision, window.handle, placed, end_of(inputs))
        with _faults():
            timed = self._worker.time(asked, seconds)
        if timed.placed is None:
            raise ContenderError(f"{self.name}: the reference returned no tensor")
        (output,) = window.at(timed.placed)
        return Sample(timed.milliseconds, output)


def prepare_baseline(worker: BaselineWorker, case: Case, weights: Mapping[str, Tensor]) -> None:
    """Construct `Model` in a worker with these weights; raise the errors of `TimedSubmission`."""
    with _faults():
        worker.construct(case.constructor_call)
        worker.set_weights(weights)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (StepFault, StepFailed) as fault:
        raise ContenderError(str(fault)) from None
