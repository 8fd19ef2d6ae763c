"""Calls with inputs in other layouts, some of them vast, and what follows from their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.finding import Finding
from harness.judging import verdict
from harness.judging.answered import outputs_of, wrong_kind
from harness.judging.aside import Aside
from harness.judging.call_judge import MadeCall
from harness.judging.case_evidence import CaseEvidence
from harness.judging.conversation import StepFault
from harness.judging.layouts import WORDS, claims_to_handle
from harness.judging.vast import describe_missing_parts, judge_parts
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.values import Call, CaseValues, vast_of
from harness.problems.vast import VAST
from harness.records.findings import describe_finding, failing_findings


class LayoutCalls:
    """The calls of a case with inputs in other layouts than the contiguous one."""

    def __init__(
        self,
        problem: Problem,
        case: Case,
        source: str,
        evidence: CaseEvidence,
        forward: Callable[[Call, CaseValues], MadeCall],
        judged: Callable[[Call, CaseValues, Aside], None],
        *,
        is_on_gpu: bool,
    ) -> None:
        """Prepare the calls.

        Args:
            problem: The reference.
            case: The case.
            source: The submission's text.
            evidence: Where the calls' results are stored.
            forward: Function that makes a call, without judging the outputs.
            judged: Function that makes a call and judges it, like a call in the usual layout.
            is_on_gpu: Whether the kernels run on a GPU.
        """
        self._problem = problem
        self._case = case
        self._source = source
        self._evidence = evidence
        self._forward = forward
        self._call = judged
        self._is_on_gpu = is_on_gpu

    def takes(self, call: Call, values: CaseValues, aside: Aside) -> bool:
        """Make a call with inputs in another layout; return whether a further layout can be tried.

        If the submission's text promises to handle the layout, a wrong result fails the case.
        Otherwise the report has a note if the result is wrong, or if torch did the work.
        """
        is_promised = claims_to_handle(self._source, call.arrangement)
        if call.arrangement in VAST:
            return self._takes_vast(call, values, aside, is_promised=is_promised)
        if self._is_on_gpu and not is_promised:
            # A wild access would break the GPU's context for the cases that follow.
            return True
        evidence, before = self._evidence, self._evidence.before()
        try:
            self._call(call, values, aside)
            told, can_follow = "the output is wrong", True
        except StepFault as fault:
            if is_promised and not fault.stop.is_refusal:
                raise
            told, can_follow = fault.stop.message, False
        else:
            if is_promised or (not evidence.is_amiss and evidence.fallback == before.fallback):
                return not evidence.is_amiss
            if not evidence.is_amiss:
                told = verdict.FALLS_BACK
        evidence.go_back(before, call.name)
        evidence.notes.append(f"{WORDS[call.arrangement]}: {told}")
        return can_follow

    def _takes_vast(
        self, call: Call, values: CaseValues, aside: Aside, *, is_promised: bool
    ) -> bool:
        """Make a call with a vast input (`VAST`); return whether a further layout can be tried.

        The input or the output has at least 2^28 elements, of which memory holds only a few parts.
        A wrong result fails the case if 32-bit indices can count the elements (layout `long`). It
        also fails the case if the submission's text promises to handle larger sizes. Otherwise the
        result becomes a note. There is no note if the submission refuses the input, or if the few
        blocks that run do not show whether the output is right.
        """
        told: Finding | str | None
        try:
            made = self._forward(call, values)
        except StepFault as fault:
            told = _failed_alone(fault.findings)
            if told is None and call.arrangement != "rows" and is_promised:
                told = _error_of(fault.stop)
        else:
            told = _failed_alone(made.called.findings)
            if told is None:
                wrong: list[str | None] = []
                aside.start(lambda: wrong.append(self._wrong_parts(made)))
                aside.finish()
                (told,) = wrong
        if told is None:
            return True
        words = WORDS[call.arrangement]
        if not is_promised and call.arrangement != "long":
            what = told if isinstance(told, str) else describe_finding(told)
            self._evidence.notes.append(f"{words}: {what}")
            return True
        if isinstance(told, Finding):
            self._evidence.findings.append(replace(told, message=f"{told.message}, with {words}"))
        else:
            self._evidence.faults.append(f"{words}: {told}")
        return False

    def _wrong_parts(self, made: MadeCall) -> str | None:
        """Return what is wrong with the output of a call with a vast input (`VAST`), or None.

        Only a few parts of that output exist in memory, and only these are checked.
        """
        call, called = made.call, made.called
        vast = vast_of(self._problem, self._case, call.arrangement)
        places = [each.place for each in called.outputs]
        shape = places[0].shape if len(places) == 1 and places[0] else ()
        if vast and shape and shape != vast.output_shape:
            return f"the output has shape {shape}, not {vast.output_shape}"
        if wrong := wrong_kind(called, self._problem.outputs):
            return wrong
        (output,) = outputs_of(called)
        if vast and (missing := describe_missing_parts(output, vast, is_whole=called.is_whole)):
            return missing
        judged = judge_parts(self._problem, self._case, call.run, made.values, output)
        return judged.mismatch.message if judged.mismatch else None


def _failed_alone(findings: Sequence[Finding]) -> Finding | None:
    """Return the first failing finding that a block caused by itself, or None.

    Only findings of memcheck and synccheck count. Any other finding may be a consequence of blocks
    that did not run.
    """
    failing = failing_findings(findings)
    return next((each for each in failing if each.check in ("memcheck", "synccheck")), None)


def _error_of(stop: verdict.Stop) -> str | None:
    """Return the message of a call that stopped with the verdict `error`, or None.

    Running out of memory does not count as an error of the submission.
    """
    is_error = stop.verdict == "error" and "out of memory" not in stop.message
    return stop.message if is_error else None
