"""What the answer to a call shows beside its numbers: whether it is an output, and whose work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor

from harness.device.record import IN_MODULES
from harness.judging import verdict
from harness.judging.conversation import StepFault
from harness.judging.integrity import Judged, judge_work, work_from
from harness.judging.operator_work import judge_operators
from harness.messages.channel import Message
from harness.problems.grid import Case
from harness.problems.operations import Operation, operations_of
from harness.problems.problem import Problem


def wrong_kind(answer: Message) -> str | None:
    """What keeps an answer from being an output at all."""
    header = answer.header
    if header.get("wrong"):
        return f"the output is not in the device's memory: {header['wrong']}"
    if header.get("type") != "torch.Tensor":
        return f"forward returned {header.get('type')}, not a tensor"
    if header.get("device") != "cuda":
        return f"the output is on {header.get('device')}, not on cuda"
    if header.get("shares"):
        return f"the output shares memory with {header['shares']}"
    if not answer.tensors:
        return "forward's output was not sent"
    return None


def writers_of(answer: Message) -> Tensor:
    """Who wrote each element of the output: uint8 of its shape, as the device says always.

    Raises:
        StepFault: it has not.
    """
    if [tensor.shape for tensor in answer.tensors[1:]] != [answer.tensors[0].shape]:
        message = "the worker sent an output without saying who wrote it"
        raise StepFault(verdict.Stop("error", message))
    return answer.tensors[1]


class OwnWork:
    """Whether calls of one case are a submission's own work."""

    def __init__(self, problem: Problem, case: Case, source: str) -> None:
        """`source` is the submission's text, by whose words operators are called."""
        self._problem = problem
        self._case = case
        self._source = source
        self.need = problem.family.need(case)

    def judge(
        self, answer: Message, output: Tensor, writers: Tensor | None, *, is_first: bool
    ) -> Judged:
        """Judge one call by its answer.

        Args:
            answer: With the device's record of it.
            output: What it returned.
            writers: Who wrote each element of it; None where kernels may have left some out.
            is_first: Whether it is the first call of the model.
        """
        during, before = (work_from(answer.header["work"][name]) for name in ("during", "before"))
        if is_first:
            # What is built for the sizes at hand is built when they are first seen.
            during = tuple(work for work in during if work.name != IN_MODULES)
        if self.need is None:
            own = self._operations
            return judge_operators(own, during, before, output, writers, self._source)
        return judge_work(self.need, during, before, output, writers, self._source)

    @cached_property
    def _operations(self) -> Sequence[Operation]:
        try:
            return operations_of(self._problem, self._case)
        except Exception:  # a reference may need values to know what it does
            return ()
