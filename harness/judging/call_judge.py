"""The judgement of what one forward call of a case has returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.finding import Finding
from harness.judging import verdict
from harness.judging.answered import Output, OwnWork, describe_unwritten, outputs_of, wrong_kind
from harness.judging.case_evidence import CaseEvidence
from harness.judging.causes import is_late
from harness.judging.compare import classify, loosest
from harness.judging.conversation import StepFault
from harness.judging.division import Division
from harness.judging.integrity import changed_values
from harness.judging.judge import judge, judge_with_bits
from harness.judging.operator_work import Operands
from harness.judging.picture import WrongOutput
from harness.judging.sample import as_parts, caused_alone, why_untold
from harness.judging.vast import judge_parts
from harness.messages.digests import digest
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.values import Call, CaseValues, output_shapes
from harness.records.comparison import PRECISIONS, Comparison
from harness.records.findings import failing_findings
from harness.simulator.native.bindings import UNWRITTEN
from harness.worker.device_worker import ForwardOutcome


@dataclass(frozen=True)
class MadeCall:
    """A forward call that was made, and is to be judged.

    Attributes:
        call: The call.
        values: Its weights and inputs.
        called: What it has returned.
        digests: Digests of the weights that the worker had during the call, by ModelNew's names.
        of_counters: What the counters of its kernels have shown.
        is_first: True for the first call of the case.
    """

    call: Call
    values: CaseValues
    called: ForwardOutcome
    digests: Mapping[str, str]
    of_counters: Sequence[Finding]
    is_first: bool


class CallJudge:
    """The judge of a case's calls, which adds to the evidence about the case.

    Attributes:
        own_work: The judge of whether the submission's own kernels did the work.
    """

    def __init__(
        self,
        problem: Problem,
        case: Case,
        evidence: CaseEvidence,
        own_work: OwnWork,
        oracle_device: torch.device,
        division: Division | None,
    ) -> None:
        """Prepare to judge calls.

        Args:
            problem: The reference.
            case: The case.
            evidence: Where the judgements are stored.
            own_work: The judge of the work.
            oracle_device: The device on which the oracle computes.
            division: As in `CaseCheck`.
        """
        self._problem = problem
        self._case = case
        self._evidence = evidence
        self.own_work = own_work
        self._oracle_device = oracle_device
        self._own_division = division
        self._is_own = case.label in OWN

    def judge(self, made: MadeCall) -> None:
        """Judge what a call has returned, and store what is wrong with it.

        Raises:
            StepFault: Only a sample of blocks ran, and does not show whether the outputs are right.
        """
        call, values, called = made.call, made.values, made.called
        is_whole = called.is_whole
        self._evidence.take_work(made.of_counters, called.findings)
        found = called.findings if is_whole else caused_alone(called.findings)
        self._evidence.take(found)
        self._evidence.findings += changed_values(called.evidence, values.inputs, made.digests)
        fault = wrong_kind(called, self._problem.outputs)
        if fault:
            self._evidence.faults.append(fault)
            return
        outputs = outputs_of(called)
        if not is_whole:
            if why := why_untold(called.evidence, outputs):
                raise StepFault(verdict.Stop("not run", f"not run: in a sample of blocks, {why}"))
            outputs = [as_parts(output) for output in outputs]
        is_first = not self._evidence.comparisons
        # For most references, the first call shows which classes say something.
        is_asked = is_first or (self._is_own and self._evidence.telling != PRECISIONS[-1])
        judged = []
        for number, output in enumerate(outputs):
            comparison = self._judge_output(
                call, values, number, output, found, with_limits=is_asked, is_whole=is_whole
            )
            judged.append(self._naming(number, comparison))
        comparison = _of_all(judged)
        self._evidence.limits = comparison.limits if is_first else self._evidence.limits
        self._evidence.telling = loosest([self._evidence.telling, comparison.telling])
        if not is_late(found):
            self._evidence.comparisons[call.name] = comparison
        if is_whole:
            self._compare_bits(call, outputs)
        # An output without elements needs no work, and so no kernel.
        if all(output.value.numel() for output in outputs):
            self._judge_work(made, outputs, found)

    def _judge_output(
        self,
        call: Call,
        values: CaseValues,
        number: int,
        output: Output,
        found: Sequence[Finding],
        *,
        with_limits: bool,
        is_whole: bool,
    ) -> Comparison:
        """Compare one of a call's outputs with the oracle; store the case's first wrong output."""
        problem = self._problem.each_output()[number]
        run, actual, device = call.run, output.value, self._oracle_device
        judged = problem, self._case, run, values, actual, device
        if not is_whole:
            return judge_parts(problem, self._case, run, values, output, with_limits=with_limits)
        if _tells_bits(call):
            comparison, rounded = judge_with_bits(*judged, with_limits=with_limits)
            self._evidence.roundings += rounded
        else:
            comparison = judge(*judged, with_limits=with_limits)
        unwritten = output.writers == UNWRITTEN
        if is_late(found):
            self._evidence.late_outputs += bool(comparison.mismatch or unwritten.any())
            return comparison
        if bool(unwritten.any()):
            self._evidence.faults.append(describe_unwritten(unwritten))
        beside = _beside(found, output.address, actual)
        if self._evidence.wrong is None and (comparison.mismatch or beside):
            # A stopped kernel, or a read of uninitialised memory, leaves gaps for another reason.
            has_gaps = any(finding.kernel for finding in failing_findings(self._evidence.findings))
            wrong = WrongOutput(
                run,
                values,
                actual,
                unwritten,
                has_gaps,
                beside,
                _is_from_outside(found),
                number,
            )
            self._evidence.remember(wrong, comparison.mismatch, self.output_shapes)
        return comparison

    def _naming(self, number: int, comparison: Comparison) -> Comparison:
        """Return a comparison whose message names which of several outputs is wrong."""
        mismatch = comparison.mismatch
        if mismatch is None or self._problem.outputs is None:
            return comparison
        message = f"output {number + 1} of {self._problem.outputs}: {mismatch.message}"
        return replace(comparison, mismatch=replace(mismatch, message=message))

    @cached_property
    def output_shapes(self) -> Sequence[tuple[int, ...]]:
        """The shape of each output of the reference in this case; empty if unknown."""
        try:
            return output_shapes(self._problem, self._case)
        except Exception:  # a reference may need values to know its shapes
            return ()

    def _compare_bits(self, call: Call, outputs: Sequence[Output]) -> None:
        """Compare the outputs of a repeated call bit for bit with those of the original call."""
        bits = " ".join(digest(output.value) for output in outputs)
        if call.kind == "first":
            self._evidence.bits[call.run.name] = bits
        elif call.kind == "again" and call.run.name in self._evidence.bits:
            self._evidence.deterministic = self._evidence.bits[call.run.name] == bits

    def _judge_work(
        self, made: MadeCall, outputs: Sequence[Output], found: Sequence[Finding]
    ) -> None:
        """Judge whether the submission's kernels did a call's work, given the call's findings."""
        call, values, called = made.call, made.values, made.called
        # If most inputs are zero, kernels need not write every element themselves.
        # Neither does a sample of blocks write every element.
        is_dense = called.is_whole and call.run.is_dense
        is_dense = is_dense and self.own_work.is_told_by_writers(values, outputs)
        operands = Operands.of(values.inputs, values.weights.values())
        judged = self.own_work.judge(
            called, outputs, operands, is_dense=is_dense, is_first=made.is_first
        )
        self._evidence.keep_work(judged, found, self._own_division)


def _of_all(judged: Sequence[Comparison]) -> Comparison:
    """Merge the comparisons of a call's outputs into one, with the first mismatch, if any."""
    if len(judged) == 1:
        return judged[0]
    worst = [each.worst for each in judged if each.worst is not None]
    first = next((each for each in judged if each.mismatch), judged[0])
    return replace(
        first,
        precision=classify(judged),
        worst=max(worst, default=None),
        estimated=next((each.estimated for each in judged if each.estimated), ""),
        telling=loosest(each.telling for each in judged),
    )


def _beside(
    findings: Sequence[Finding], address: int, output: Tensor
) -> tuple[tuple[int, int], ...]:
    """Return the ranges that kernels wrote beside an output, as in `WrongOutput.beside`.

    Args:
        findings: Findings of the output's call.
        address: Address of the output's first element.
        output: The output, contiguous.
    """
    found = []
    width, end = output.element_size(), address + output.nbytes
    for each in findings:
        if each.check != "memcheck" or each.access != "store" or each.reach is None:
            continue
        start = (each.address or 0) - (each.offset or 0)
        if start <= address < start + (each.allocation or 0):
            low, high = (start + offset for offset in each.reach)
            if low < address or high >= end:
                found.append(((low - address) // width, (high - address) // width))
    return tuple(found)


def _is_from_outside(findings: Sequence[Finding]) -> bool:
    """Return whether loads out of bounds explain the NaNs of an output.

    The simulator returns NaN for a load out of bounds, but also for memory that nothing wrote. So
    the result is False if initcheck has a finding.
    """
    kinds = {(each.check, each.access) for each in findings}
    return ("memcheck", "load") in kinds and not any(check == "initcheck" for check, _ in kinds)


def _tells_bits(call: Call) -> bool:
    """Return whether the search for rounded operands uses a call.

    The call must be the first with the values of its run. Every term of a sum must have a visible
    effect on the output (`Run.is_plain`). The weights must be set A (`Run.weights`), or the inputs
    normally distributed.
    """
    # Among the runs with other weights, one is enough. Normal inputs show what positive ones hide.
    is_one = call.run.weights == "A" or call.run.distribution == "normal"
    return call.kind == "first" and call.run.is_plain and is_one
