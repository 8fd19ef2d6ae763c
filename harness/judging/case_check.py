"""The check of one case: its forward calls in a worker, and the judgement of their outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.defaults import JUDGING_SECONDS
from harness.finding import Finding
from harness.gpu.reference_time import reference_seconds
from harness.judging import verdict
from harness.judging.answered import Output, OwnWork, describe_unwritten, outputs_of, wrong_kind
from harness.judging.aside import Aside
from harness.judging.causes import (
    causes_first,
    counted,
    is_in_kernel,
    is_late,
    parted,
    with_used_values,
)
from harness.judging.compare import classify, loosest
from harness.judging.conversation import MOST_ELEMENTS, Conversation, StepFault
from harness.judging.division import Division
from harness.judging.integrity import Judged, changed_values, judge_arithmetic
from harness.judging.judge import judge, judge_with_bits
from harness.judging.kept_bits import Rounding
from harness.judging.layouts import WORDS, claims_to_handle
from harness.judging.operator_work import Operands
from harness.judging.picture import WrongOutput
from harness.judging.repetition import Repetition
from harness.judging.result_bits import NarrowResults
from harness.judging.sample import as_parts, caused_alone, why_untold
from harness.judging.vast import describe_missing_parts, judge_parts
from harness.messages.digests import digest
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.runs import Weights
from harness.problems.surroundings import move_for, multiprocessors_for
from harness.problems.values import (
    Call,
    CaseValues,
    calls_for,
    output_shapes,
    runs_for,
    unused_weights,
    values_for,
    values_of_call,
    vast_of,
)
from harness.problems.vast import VAST
from harness.records.comparison import PRECISIONS, Comparison, Mismatch, Precision
from harness.records.findings import describe_finding, failing_findings, merge_findings
from harness.records.report import CaseReport, not_run
from harness.simulator.counters.totals import KernelProfile, Totals, totals
from harness.simulator.native.bindings import UNWRITTEN
from harness.worker.device_worker import DeviceWorker, ForwardCall, ForwardOutcome
from harness.worker.supervisor import WorkerFailure

# The schedules of blocks and warps on the simulator for calls that repeat another one: with the
# same inputs, and with nearly the same ones. Opposite halves of the warps may run ahead in them.
_OTHER_SCHEDULE, _OPPOSITE_SCHEDULE = 5, 6

# The most elements of an output that is kept. A diagnosis needs small outputs, and many large ones
# would fill the memory.
_MAX_REMEMBERED = 1 << 20
# Thread-instructions, some seconds of them, after which a case makes only the calls that tell most.
# A kernel with a block of 256 threads for each of 4099 small matrices takes ten times as many in
# all runs. The last runs show little that the first do not.
_MOST_OF_ALL_RUNS = 3 * 10**8
# The most thread-instructions of a call with a vast input. The few blocks of most kernels take a
# tenth of that.
_MOST_OF_VAST = 3 * 10**8
# The most numbers in inputs that are drawn on the CPU. No case on the simulator has more.
_MOST_DRAWN = 1 << 22


@dataclass(frozen=True)
class CaseOutcome:
    """A case's report, with further results that the submission's report needs.

    Attributes:
        report: The report of the case.
        case: The case.
        wrong: The first output that has the right shape and wrong elements; None if there is none.
        other: If `wrong` is None, another output that shows the failure: its shape is wrong, or a
            kernel wrote beside it. This output has no elements if a memory error stopped the call.
        wrong_shape: Shape of an output that has the right number of dimensions and wrong sizes;
            None if there is no output with such a shape.
        initialised_alike: True if ModelNew initialises its weights with the same values as the
            reference after the same seed; None if they could not be compared.
        worker_failed: True if the worker failed during the case, so that it can run no further
            case.
        wrong_inputs: Sentence that names the calls with wrong outputs by their inputs; empty if the
            first call is wrong, or if no call is.
        kernels: Counters of each kernel in the first call of the problem's own configuration on the
            simulator; empty for other cases.
        spent: Number of thread-instructions that the simulator executed in the case's calls.
        roundings: Roundings of operands and results to fewer bits, from each call whose outputs
            show such a rounding.
        division: How the case's work is divided between torch and the submission's kernels; None
            unless the case passed.
        is_over_budget: True if a call exceeded the instruction budget.
    """

    report: CaseReport
    case: Case
    wrong: WrongOutput | None = None
    other: WrongOutput | None = None
    wrong_shape: tuple[int, ...] | None = None
    initialised_alike: bool | None = None
    worker_failed: bool = False
    wrong_inputs: str = ""
    kernels: tuple[KernelProfile, ...] = ()
    spent: int = 0
    roundings: tuple[Rounding | NarrowResults, ...] = ()
    division: Division | None = None
    is_over_budget: bool = False

    @property
    def spent_on_a_call(self) -> int:
        """The mean number of thread-instructions of the case's judged calls."""
        return self.spent // max(1, len(self.report.errors))


class CaseCheck:
    """The check of a submission in one case, by one worker."""

    def __init__(
        self,
        problem: Problem,
        case: Case,
        worker: DeviceWorker,
        oracle_device: torch.device,
        budget: int | None = None,
        own: Problem | None = None,
        sample: int | None = None,
        division: Division | None = None,
        judging_seconds: float = JUDGING_SECONDS,
    ) -> None:
        """Prepare the check.

        Args:
            problem: The reference.
            case: The case.
            worker: The worker, which has imported the submission.
            oracle_device: The device on which the oracle computes.
            budget: The most thread-instructions of a call on the simulator; None for no limit.
            own: The reference with the sizes of its file; None if `problem` has these sizes.
            sample: Seed that selects the thread blocks to run; None to run all blocks.
            division: How the submission divides the work between torch and its kernels in the
                problem's own configuration; None unless that configuration passed.
            judging_seconds: Deadline of the judgement of one call's outputs.
        """
        self._judging_seconds = judging_seconds
        self._problem = problem
        self._own = own or problem
        self._case = case
        self._conversation = Conversation(worker, problem, case)
        self._budget = budget
        self._sample = sample
        self._spent = 0
        self._oracle_device = oracle_device
        self._alike: bool | None = None
        self._comparisons: dict[str, Comparison] = {}
        self._findings: list[Finding] = []
        self._explained: list[Finding] = []
        self._late_outputs = 0
        self._faults: list[str] = []
        self._notes: list[str] = []
        self._wrong: WrongOutput | None = None
        self._other: WrongOutput | None = None
        self._current: tuple[Call, CaseValues] | None = None
        self._wrong_shape: tuple[int, ...] | None = None
        self._kernels: tuple[KernelProfile, ...] = ()
        self._limits: Mapping[Precision, float] = {}
        self._telling: Precision | None = None
        self._own_work = OwnWork(problem, case, worker.source)
        self._shares: list[float] = []
        self._own_division = division
        self._division: Division | None = None
        self._left: tuple[str, ...] = ()
        self._movers: tuple[str, ...] = ()
        # Why torch does the work in this case, though not in the own configuration.
        self._fallback = ""
        self._calls = calls_for(problem, case)
        self._repetition = Repetition(self._calls)
        self._is_on_gpu = oracle_device.type == "cuda"
        self._is_own = case.label in OWN
        # Above this size, drawing on the CPU takes minutes.
        numbers = sum(map(math.prod, case.input_shapes))
        self._drawing_device = oracle_device if numbers > _MOST_DRAWN else torch.device("cpu")
        self._weights: Mapping[str, str] = {}
        self._drawn: dict[Weights, Mapping[str, Tensor]] = {}
        self._bits: dict[str, str] = {}
        self._deterministic: bool | None = None
        self._roundings: list[Rounding | NarrowResults] = []

    def run(self) -> CaseOutcome:
        """Construct the model, make every call, and judge the outputs."""
        worker_failed, is_over_budget = False, False
        wrong_inputs = ""
        try:
            self._construct()
            self._run_calls()
        except StepFault as fault:
            self._take(fault.findings)
            self._note_missing_output()
            report = self._stopped_report(fault.stop)
            # In a sample of blocks, a case is also not run if its outputs cannot be judged.
            is_over_budget = report.verdict == "not run" and self._sample is None
        except WorkerFailure as failure:
            worker_failed = True
            report = self._stopped_report(self._why(failure))
        else:
            report = self._report()
            found = (each.mismatch for each in self._comparisons.values() if each.mismatch)
            # A number that is not finite is given as text.
            is_finite = not all(isinstance(each.actual, str) for each in found)
            wrong_inputs = verdict.name_wrong_inputs(
                self._calls, report.wrong_runs, is_finite=is_finite
            )
        return CaseOutcome(
            report,
            self._case,
            self._wrong,
            None if self._wrong else self._other,
            self._wrong_shape,
            self._alike,
            worker_failed,
            wrong_inputs,
            self._kernels,
            self._spent,
            tuple(self._roundings),
            self._division if report.verdict == "passed" else None,
            is_over_budget,
        )

    def _run_calls(self) -> None:
        """Make each call, and judge its answer while the worker makes the next one.

        Exceptions of a judgement are raised here.
        """
        sent = None
        with Aside(self._judging_seconds) as aside:
            for call in self._bearable_calls():
                known = self._drawn.get(call.run.weights)
                values = values_of_call(
                    self._problem, self._case, call, known, self._drawing_device
                )
                self._drawn[call.run.weights] = values.weights
                if call.run.weights != sent:
                    self._weights = self._conversation.send_weights(values.weights)
                    sent = call.run.weights
                if call.kind == "arranged":
                    aside.finish()
                    if self._is_amiss or not self._takes(call, values, aside):
                        return
                    continue
                called = self._forward(call, values)
                aside.start(self._judge, call, values, called, self._weights)
                if self._is_on_gpu:
                    # Values may take gigabytes, so those of two calls are not kept at once.
                    aside.finish()
                    del values, called
            aside.finish()

    def _bearable_calls(self) -> Iterator[Call]:
        """Yield the case's calls; skip most once the simulator has executed many instructions.

        After that, only the first calls of the runs that `Family.indispensable` returns are made.
        If none of these is left, the case's last call is made instead. Skipped calls no longer
        count as calls of the case. In the problem's own configuration, no call is skipped.
        """
        made, is_short = 0, self._is_own
        while made < len(self._calls):
            if self._spent > _MOST_OF_ALL_RUNS and not is_short:
                left = self._calls[made:]
                needed = self._problem.family.indispensable(runs_for(self._problem))
                telling = [each for each in left if each.run in needed and each.kind == "first"]
                self._calls = (*self._calls[:made], *(telling or left[-1:]))
                is_short = True
            yield self._calls[made]
            made += 1

    def _why(self, failure: WorkerFailure) -> verdict.Stop:
        """Return the verdict and message for a worker's failure.

        After a timeout on a GPU, the message includes the time that the reference takes.
        """
        stop = verdict.stop_for_failure(failure)
        if failure.cause != "timeout" or not self._is_on_gpu:
            return stop
        seconds = reference_seconds(self._problem, self._case)
        beside = "" if seconds is None else f"; the reference takes {seconds:.3g} s"
        return replace(stop, message=stop.message + beside)

    def _construct(self) -> None:
        """Construct the model, and find its parameter for each of the reference's weights."""
        run = runs_for(self._problem)[0]
        first = values_for(self._problem, self._case, run).weights
        self._drawn[run.weights] = first
        elements = sum(weight.numel() for weight in first.values())
        model = self._conversation.construct(elements=elements)
        self._findings += model.findings
        self._alike = self._conversation.match(first, model, lambda: unused_weights(self._problem))

    def _forward(self, call: Call, values: CaseValues) -> ForwardOutcome:
        """Make a forward call, without judging the outputs."""
        # Kernels are counted in calls that are judged, since a call that is not judged could do
        # less. A repeated call is counted too, since a submission that caches its outputs does less
        # there.
        is_first = call.kind == "first" and call.run == runs_for(self._problem)[0]
        is_compared = self._repetition.includes(call)
        is_whole = not self._is_on_gpu and self._sample is None
        counted = self._is_own and (is_first or is_compared) and is_whole
        # Atomic sums of floats may have another result in another order of blocks and warps. The
        # counters of two calls in different orders may differ too, where blocks wait for others.
        is_in_other_order = call.kind == "again" or call is self._repetition.control
        schedule = _OTHER_SCHEDULE if is_in_other_order else None
        if call.kind == "touched" and not is_in_other_order:
            schedule = _OPPOSITE_SCHEDULE
        # If the inputs never moved, a captured graph that replays old addresses would pass.
        # The call that is compared with a repeated one differs from it in one number alone.
        is_moved = call.kind == "touched" and call is not self._repetition.control
        vast = vast_of(self._problem, self._case, call.arrangement)
        how = ForwardCall(
            counting=counted,
            in_new_memory=is_moved,
            arrangement=call.arrangement,
            vast=vast,
            schedule=schedule,
            budget=_MOST_OF_VAST if vast else self._budget,
            sample=self._sample,
            is_last=call is self._calls[-1],
        )
        self._current = call, values
        called = self._conversation.call(how, values.inputs, elements=self._output_elements())
        self._spent += called.evidence.spent
        if counted:
            kernels = called.kernels
            self._kernels = kernels if is_first else self._kernels
            found = self._judge_counters(call, totals(kernels))
            self._take_work(found, called.findings)
        return called

    def _judge_counters(self, call: Call, counted: Totals) -> tuple[Finding, ...]:
        """Judge the arithmetic of a call; add a further call if a repeated call did less."""
        when = "when the same inputs were given again, " if call.kind == "again" else ""
        found = judge_arithmetic(self._own_work.need, counted.flop, when)
        if not self._repetition.includes(call):
            return found
        kept = self._repetition.add(call, counted)
        if call.kind == "again" and self._repetition.control:
            after = self._calls.index(call) + 1
            self._calls = (*self._calls[:after], self._repetition.control, *self._calls[after:])
        return (*found, *kept)

    def _judge(
        self, call: Call, values: CaseValues, called: ForwardOutcome, digests: Mapping[str, str]
    ) -> None:
        """Judge what a call has returned, and store what is wrong with it.

        Args:
            call: The call.
            values: Weights and inputs of the call.
            called: What it has returned.
            digests: Digests of the weights that the worker had during the call, by ModelNew's
                names.
        """
        is_whole = called.is_whole
        found = called.findings if is_whole else caused_alone(called.findings)
        self._take(found)
        self._findings += changed_values(called.evidence, values.inputs, digests)
        fault = wrong_kind(called, self._problem.outputs)
        if fault:
            self._faults.append(fault)
            return
        outputs = outputs_of(called)
        if not is_whole:
            if why := why_untold(called.evidence, outputs):
                raise StepFault(verdict.Stop("not run", f"not run: in a sample of blocks, {why}"))
            outputs = [as_parts(output) for output in outputs]
        is_first = not self._comparisons
        # For most references, the first call shows which classes say something.
        is_asked = is_first or (self._is_own and self._telling != PRECISIONS[-1])
        judged = []
        for number, output in enumerate(outputs):
            comparison = self._judge_output(
                call, values, number, output, found, with_limits=is_asked, is_whole=is_whole
            )
            judged.append(self._naming(number, comparison))
        comparison = _of_all(judged)
        self._limits = comparison.limits if is_first else self._limits
        self._telling = loosest([self._telling, comparison.telling])
        if not is_late(found):
            self._comparisons[call.name] = comparison
        if is_whole:
            self._compare_bits(call, outputs)
        # An output without elements needs no work, and so no kernel.
        if all(output.value.numel() for output in outputs):
            self._judge_work(call, values, called, outputs, found, is_whole=is_whole)

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
            self._roundings += rounded
        else:
            comparison = judge(*judged, with_limits=with_limits)
        unwritten = output.writers == UNWRITTEN
        if is_late(found):
            self._late_outputs += bool(comparison.mismatch or unwritten.any())
            return comparison
        if bool(unwritten.any()):
            self._faults.append(describe_unwritten(unwritten))
        beside = _beside(found, output.address, actual)
        if self._wrong is None and (comparison.mismatch or beside):
            # A stopped kernel, or a read of uninitialised memory, leaves gaps for another reason.
            has_gaps = any(finding.kernel for finding in failing_findings(self._findings))
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
            self._remember(wrong, comparison.mismatch)
        return comparison

    def _naming(self, number: int, comparison: Comparison) -> Comparison:
        """Return a comparison whose message names which of several outputs is wrong."""
        mismatch = comparison.mismatch
        if mismatch is None or self._problem.outputs is None:
            return comparison
        message = f"output {number + 1} of {self._problem.outputs}: {mismatch.message}"
        return replace(comparison, mismatch=replace(mismatch, message=message))

    @property
    def _is_amiss(self) -> bool:
        """True if any call so far has a wrong output, an invalid answer or a failing finding."""
        wrong = any(each.mismatch for each in self._comparisons.values())
        return wrong or bool(self._faults) or bool(failing_findings(self._findings))

    def _takes(self, call: Call, values: CaseValues, aside: Aside) -> bool:
        """Make a call with inputs in another layout; return whether a further layout can be tried.

        If the submission's text promises to handle the layout, a wrong result fails the case.
        Otherwise the report has a note if the result is wrong, or if torch did the work.
        """
        is_promised = claims_to_handle(self._conversation.source, call.arrangement)
        if call.arrangement in VAST:
            return self._takes_vast(call, values, aside, is_promised=is_promised)
        if self._is_on_gpu and not is_promised:
            # A wild access would break the GPU's context for the cases that follow.
            return True
        before, other, fallback = list(self._findings), self._other, self._fallback
        try:
            called = self._forward(call, values)
            aside.start(self._judge, call, values, called, self._weights)
            aside.finish()
            told, can_follow = "the output is wrong", True
        except StepFault as fault:
            if is_promised and not fault.stop.is_refusal:
                raise
            told, can_follow = fault.stop.message, False
        else:
            if is_promised or (not self._is_amiss and self._fallback == fallback):
                return not self._is_amiss
            if not self._is_amiss:
                told = verdict.FALLS_BACK
        self._findings, self._faults, self._wrong = before, [], None
        self._other, self._fallback = other, fallback
        self._comparisons.pop(call.name, None)
        self._notes.append(f"{WORDS[call.arrangement]}: {told}")
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
            called = self._forward(call, values)
        except StepFault as fault:
            told = _failed_alone(fault.findings)
            if told is None and call.arrangement != "rows" and is_promised:
                told = _error_of(fault.stop)
        else:
            told = _failed_alone(called.findings)
            if told is None:
                wrong: list[str | None] = []
                aside.start(lambda: wrong.append(self._wrong_parts(call, values, called)))
                aside.finish()
                (told,) = wrong
        if told is None:
            return True
        words = WORDS[call.arrangement]
        if not is_promised and call.arrangement != "long":
            what = told if isinstance(told, str) else describe_finding(told)
            self._notes.append(f"{words}: {what}")
            return True
        if isinstance(told, Finding):
            self._findings.append(replace(told, message=f"{told.message}, with {words}"))
        else:
            self._faults.append(f"{words}: {told}")
        return False

    def _wrong_parts(self, call: Call, values: CaseValues, called: ForwardOutcome) -> str | None:
        """Return what is wrong with the output of a call with a vast input (`VAST`), or None.

        Only a few parts of that output exist in memory, and only these are checked.
        """
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
        judged = judge_parts(self._problem, self._case, call.run, values, output)
        return judged.mismatch.message if judged.mismatch else None

    def _output_elements(self) -> int:
        shapes = self._output_shapes
        return sum(map(math.prod, shapes)) if shapes else MOST_ELEMENTS

    @cached_property
    def _output_shapes(self) -> Sequence[tuple[int, ...]]:
        """The shape of each output of the reference in this case; empty if unknown."""
        try:
            return output_shapes(self._problem, self._case)
        except Exception:  # a reference may need values to know its shapes
            return ()

    def _compare_bits(self, call: Call, outputs: Sequence[Output]) -> None:
        """Compare the outputs of a repeated call bit for bit with those of the original call."""
        bits = " ".join(digest(output.value) for output in outputs)
        if call.kind == "first":
            self._bits[call.run.name] = bits
        elif call.kind == "again" and call.run.name in self._bits:
            self._deterministic = self._bits[call.run.name] == bits

    def _judge_work(
        self,
        call: Call,
        values: CaseValues,
        called: ForwardOutcome,
        outputs: Sequence[Output],
        found: Sequence[Finding],
        *,
        is_whole: bool,
    ) -> None:
        """Judge whether the submission's kernels did a call's work, given the call's findings."""
        is_first = call is self._calls[0]
        # If most inputs are zero, kernels need not write every element themselves.
        # Neither does a sample of blocks write every element.
        is_dense = is_whole and call.run.is_dense
        is_dense = is_dense and self._own_work.is_told_by_writers(values, outputs)
        operands = Operands.of(values.inputs, values.weights.values())
        judged = self._own_work.judge(
            called, outputs, operands, is_dense=is_dense, is_first=is_first
        )
        self._keep_work(judged, found)

    def _keep_work(self, judged: Judged, found: Sequence[Finding]) -> None:
        """Store the judgement of whether the submission's kernels did a call's work.

        If the problem's own configuration passed, findings about torch's work do not fail other
        cases. Instead, another case is declined if torch does more work there than in the own
        configuration.
        """
        self._shares += [judged.share] if judged.share is not None else []
        if judged.division:
            self._division = judged.division.joined(self._division)
            self._left = self._left or judged.left
            self._movers = self._movers or judged.movers
        if not (self._own_division and judged.division and judged.is_of_torch):
            self._take_work(judged.findings, found)
        elif not judged.division.is_like(self._own_division):
            self._fallback = self._fallback or judged.findings[0].message

    def _take(self, found: Sequence[Finding]) -> None:
        """Store a call's findings: causes in one list, findings that causes explain in another."""
        causes, explained = parted(found)
        self._findings += causes
        self._explained += explained

    def _take_work(self, judged: Sequence[Finding], found: Sequence[Finding]) -> None:
        """Store findings about a call's work.

        If the call's kernels ran too late, the delay explains the findings, which are only counted.
        """
        kept = self._explained if is_late(found) else self._findings
        kept += judged

    def _remember(self, wrong: WrongOutput, mismatch: Mismatch | None) -> None:
        """Keep a wrong output for the diagnosis and the picture, unless it is too large."""
        actual = wrong.actual
        if mismatch and mismatch.index is None:
            shapes = self._output_shapes
            if not shapes or not shapes[wrong.output] or len(shapes[wrong.output]) != actual.dim():
                return
            self._wrong_shape = tuple(actual.shape)
        if actual.numel() > _MAX_REMEMBERED:
            return
        inputs = tuple(tensor.cpu() for tensor in wrong.values.inputs)
        kept = replace(wrong, values=replace(wrong.values, inputs=inputs))
        if mismatch and mismatch.index is not None:
            self._wrong = kept
        else:
            self._other = self._other or kept

    def _note_missing_output(self) -> None:
        """Store the current call as a failure without output, if a kernel has a failing finding."""
        failing = [finding for finding in failing_findings(self._findings) if finding.kernel]
        shapes = self._output_shapes
        if self._current is None or not failing or not shapes:
            return
        if self._is_on_gpu or math.prod(shapes[0]) > _MAX_REMEMBERED:
            return
        call, values = self._current
        self._other = self._other or WrongOutput(
            call.run, values, torch.empty(0), None, has_gaps=True
        )

    def _report(self) -> CaseReport:
        """Return the report of a case in which every call was made."""
        wrong = {n: c for n, c in self._comparisons.items() if c.mismatch}
        findings = causes_first(merge_findings(self._findings))
        if any(c.mismatch.index is not None for c in wrong.values() if c.mismatch):
            findings = with_used_values(findings)
        failing = failing_findings(findings)
        # Findings in memory come first: they explain wrong numbers, and not the other way round.
        messages = [describe_finding(f) for f in failing if is_in_kernel(f)] + self._faults
        messages += [c.mismatch.message for c in wrong.values() if c.mismatch]
        # Other findings, such as those of own work, matter most if the numbers are right.
        messages += [describe_finding(f) for f in failing if not is_in_kernel(f)]
        if self._fallback and not messages:
            return self._fallback_report(tuple(findings))
        stale = verdict.describe_wrong_runs(self._calls, list(wrong))
        worst = [c.worst for c in self._comparisons.values() if c.worst is not None]
        return replace(
            not_run(self._case, messages[0] if messages else ""),
            verdict="failed" if messages else "passed",
            precision=None if messages else classify(self._comparisons.values()),
            worst=max(worst, default=None),
            errors={n: _short(c.worst) for n, c in self._comparisons.items()},
            limits={name: float(f"{limit:.4g}") for name, limit in self._limits.items()},
            wrong_runs=tuple(wrong),
            comparison=next(iter(wrong.values()), None),
            findings=tuple(findings),
            diagnosis=stale,
            detail=counted(self._late_outputs, len(merge_findings(self._explained))),
            estimated=self._why_no_class(),
            own_work=min(self._shares, default=None),
            deterministic=self._deterministic,
            notes=(*self._notes_on_own_work(), *self._notes, *self._surroundings(messages)),
        )

    def _surroundings(self, messages: Sequence[str]) -> Iterator[str]:
        """Yield a note on how a failing case moved the model, and on what the device reported."""
        if messages:
            count = multiprocessors_for(self._case)
            reported = f"; the device reported {count} multiprocessors" if count else ""
            yield f"the model was moved by model.{move_for(self._case)}{reported}"

    def _notes_on_own_work(self) -> Iterator[str]:
        """Yield notes on what the own configuration leaves to torch.

        One names the operators, with their share of the work. Another names the operators of torch
        that moved the numbers, if the reference only moves numbers.
        """
        if self._is_own and self._movers:
            names = ", ".join(self._movers)
            yield f"the reference only moves numbers, and torch moved as many ({names})"
        share = min(self._shares, default=1.0)
        if self._is_own and self._left and share < 1.0:
            yield f"left to torch: {', '.join(self._left)}, {1.0 - share:.1%} of the work"

    def _fallback_report(self, findings: tuple[Finding, ...]) -> CaseReport:
        """Return the report `declined` of a case whose right outputs torch computed."""
        return replace(
            not_run(self._case, f"{verdict.FALLS_BACK}: {self._fallback}"),
            verdict="declined",
            findings=findings,
            own_work=min(self._shares, default=None),
        )

    def _why_no_class(self) -> str:
        """Return why the precision class of a case without wrong outputs is not meaningful, or "".

        An estimated bound is always a reason. In the problem's own configuration, another reason is
        a class that allows errors as large as the output. In other configurations, such a class is
        not a reason, because all terms of an output may cancel in a small case.
        """
        comparisons = self._comparisons.values()
        estimated = next((each.estimated for each in comparisons if each.estimated), "")
        precision = classify(comparisons)
        if estimated or not self._is_own or loosest([precision, self._telling]) == self._telling:
            return estimated
        return f"rounding to {precision} can change the output by as much as the whole output"

    def _stopped_report(self, what: verdict.Stop) -> CaseReport:
        """Return the report of a case that stopped early; an earlier failure has priority."""
        if what.beyond_grid and verdict.has_more_rows(self._case, self._own):
            return self._report_of_more_rows(verdict.for_more_rows(what))
        report = self._report()
        if report.verdict == "failed" and not what.is_cause:
            # The exception is only how the submission or CUDA reported a finding, or it came after
            # outputs that were wrong in any case. The calls that were not made say nothing.
            lines = filter(None, (report.detail, what.message, what.detail))
            return replace(report, diagnosis="", detail="\n".join(lines))
        return replace(
            not_run(self._case, what.message),
            verdict=what.verdict,
            findings=report.findings,
            detail=what.detail,
        )

    def _report_of_more_rows(self, what: verdict.Stop) -> CaseReport:
        """Return the report of a case whose size makes a launch exceed the largest grid.

        The reference's own sizes do not exceed that grid. The case's findings are consequences of
        the failed launch, so the report leaves them out.
        """
        noted = (what.message,) if what.message == verdict.TOO_MANY_ROWS else ()
        return replace(
            not_run(self._case, what.message),
            verdict=what.verdict,
            detail=what.detail,
            notes=noted,
        )


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


def _tells_bits(call: Call) -> bool:
    """Return whether the search for rounded operands uses a call.

    The call must be the first with the values of its run. Every term of a sum must have a visible
    effect on the output (`Run.is_plain`). The weights must be set A (`Run.weights`), or the inputs
    normally distributed.
    """
    # Among the runs with other weights, one is enough. Normal inputs show what positive ones hide.
    is_one = call.run.weights == "A" or call.run.distribution == "normal"
    return call.kind == "first" and call.run.is_plain and is_one


def _short(error: float | None) -> float | None:
    return None if error is None else float(f"{error:.4g}")
