"""Checks of a forward call's outputs other than their values: the type, and what wrote the data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from harness.device.executor import KERNEL
from harness.device.record import IN_MODULES
from harness.judging import verdict
from harness.judging.conversation import StepFault
from harness.judging.integrity import Judged, judge_work
from harness.judging.operator_work import Operands, judge_operators
from harness.problems.grid import OWN, Case
from harness.problems.instance import ModelInstance
from harness.problems.operations import ReferenceOperation, operations_of, operations_with
from harness.problems.problem import Problem
from harness.problems.values import CaseValues, runs_for, values_for
from harness.worker.device_worker import ForwardOutcome
from harness.worker.steps import ClaimedOutput

_TENSOR = "torch.Tensor"


@dataclass(frozen=True)
class Output:
    """One output tensor of a forward call of the submission.

    Attributes:
        value: The elements, on the CPU or a GPU.
        writers: For each element, the kind of its writer: none (`UNWRITTEN`), one of the
            submission's kernels (`KERNEL`), or anything else (`OTHER`). uint8, of the value's
            shape.
        address: Device address of the first element.
    """

    value: Tensor
    writers: Tensor
    address: int


def wrong_kind(called: ForwardOutcome, outputs: int | None) -> str | None:
    """Return what is wrong with the type, number or memory of a call's outputs, or None.

    Args:
        called: The forward call.
        outputs: Number of tensors in the tuple that the reference returns; None if it returns one
            tensor (`Problem.outputs`).
    """
    if called.wrong:
        return f"the output is not in the device's memory: {called.wrong}"
    kind, told = called.kind, called.outputs
    if outputs is None:
        is_one = kind == _TENSOR and len(told) == 1
        wrong = _wrong(told[0]) if is_one else f"forward returned {kind}, not a tensor"
        return wrong or _not_sent(called)
    if kind == _TENSOR or len(told) != outputs:
        given = "one tensor" if kind == _TENSOR else f"{kind} of {len(told)}"
        return f"forward returned {given}, not a tuple of {outputs} tensors"
    for number, each in enumerate(told, 1):
        wrong = _wrong(each)
        if wrong:
            return f"output {number}: {wrong}"
    return _not_sent(called)


def _wrong(told: ClaimedOutput) -> str:
    """Return what is wrong with the type, device or memory of one output, or ""."""
    if told.kind != _TENSOR:
        return f"forward returned {told.kind}, not a tensor"
    if told.device != "cuda":
        return f"the output is on {told.device}, not on cuda"
    return f"the output shares memory with {told.shares}" if told.shares else ""


def _not_sent(called: ForwardOutcome) -> str | None:
    return None if called.values else "forward's output was not sent"


def outputs_of(called: ForwardOutcome) -> Sequence[Output]:
    """Return the outputs of a call that `wrong_kind` accepts.

    Raises:
        StepFault: The answer lacks the writers of an output's elements, which the device always
            sends.
    """
    values, writers = called.values, called.writers
    if [each.shape for each in values] != [each.shape for each in writers]:
        message = "the worker sent an output without saying which kernel or operator wrote it"
        raise StepFault(verdict.Stop("error", message))
    addresses = [each.place.address for each in called.outputs if each.place]
    return [Output(*each) for each in zip(values, writers, addresses, strict=True)]


def describe_unwritten(unwritten: Tensor) -> str:
    """Return a message with the number of unwritten elements, and the index of the first.

    At least one element of the mask must be True.
    """
    first = tuple(int(i) for i in unwritten.nonzero()[0])
    return (
        f"{int(unwritten.sum())} of {unwritten.numel()} output elements were never written, "
        f"the first at {list(first)}"
    )


class OwnWork:
    """The judge of whether a submission's own kernels did the work of a case's calls.

    Attributes:
        need: Work of a call: the number of products that are summed, and the numbers of elements in
            input and weight; None if unknown.
    """

    def __init__(self, problem: Problem, case: Case, source: str) -> None:
        """Prepare to judge calls of a case; `source` is the submission's text."""
        self._problem = problem
        self._case = case
        self._source = source
        self.need = problem.family.need(case)

    def judge(
        self,
        called: ForwardOutcome,
        outputs: Sequence[Output],
        operands: Operands,
        *,
        is_dense: bool,
        is_first: bool,
    ) -> Judged:
        """Judge whether the submission's own kernels did the work of one call.

        Args:
            called: The call, with the device's record of operators, kernels and copies.
            outputs: The outputs of the call; several are flattened and judged as one tensor.
            operands: Sizes in bytes of the call's inputs and weights.
            is_dense: True if an element that the submission's kernels did not write is a sign that
                something else computed it.
            is_first: True for the first call of the model, in which device code may still be built.
        """
        output, writers = outputs[0].value, outputs[0].writers
        if len(outputs) > 1:
            output = torch.cat([each.value.flatten() for each in outputs])
            writers = torch.cat([each.writers.flatten() for each in outputs])
        written = writers if is_dense else None
        during, before = called.evidence.during, called.before
        if is_first:
            # Device code for the sizes at hand may be built in the first call, which sees them
            # first.
            during = tuple(work for work in during if work.name != IN_MODULES)
        if self.need is None:
            return judge_operators(
                self._operations,
                operands,
                during,
                before,
                output,
                written,
                self._source,
                is_own=self._case.label in OWN,
            )
        return judge_work(self.need, during, before, output, written, self._source)

    def is_told_by_writers(self, values: CaseValues, outputs: Sequence[Output]) -> bool:
        """Return whether the kernels of a right submission must write at least one output element.

        If inputs of zeros give the same outputs, the kernels need not write any element. An example
        is a transposed convolution without a bias whose inputs all fall into the padding: the
        output is then all zeros.
        """
        if self.need is not None or any(bool((each.writers == KERNEL).any()) for each in outputs):
            return True
        nothing = [torch.zeros_like(each) for each in values.inputs]
        instances = (ModelInstance(each, self._case) for each in self._problem.each_output())
        try:
            return any(
                not torch.equal(each(values.weights, values.inputs), each(values.weights, nothing))
                for each in instances
            )
        except Exception:  # a reference may not take zeros
            return True

    @cached_property
    def _operations(self) -> Sequence[ReferenceOperation]:
        """The operators that the reference calls in this case; empty if they cannot be recorded."""
        with suppress(Exception):  # a reference may need values to know what it does
            return operations_of(self._problem, self._case)
        with suppress(Exception):  # or a GPU
            values = values_for(self._problem, self._case, runs_for(self._problem)[0])
            return operations_with(self._problem, self._case, values.inputs)
        return ()
