"""The check of one case: its forward calls in a worker, and the judgement of their outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from harness.defaults import JUDGING_SECONDS
from harness.finding import Finding
from harness.gpu.reference_time import reference_seconds
from harness.judging import verdict
from harness.judging.answered import OwnWork
from harness.judging.aside import Aside
from harness.judging.call_judge import CallJudge, MadeCall
from harness.judging.case_evidence import MOST_REMEMBERED, CaseEvidence
from harness.judging.case_outcome import CaseOutcome
from harness.judging.case_report import CaseReporting
from harness.judging.conversation import MOST_ELEMENTS, Conversation, StepFault
from harness.judging.division import Division
from harness.judging.integrity import judge_arithmetic
from harness.judging.layout_calls import LayoutCalls
from harness.judging.picture import WrongOutput
from harness.judging.repetition import Repetition
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.runs import Weights
from harness.problems.values import (
    Call,
    CaseValues,
    calls_for,
    runs_for,
    unused_weights,
    values_for,
    values_of_call,
    vast_of,
)
from harness.records.findings import failing_findings
from harness.simulator.counters.totals import KernelProfile, Totals, totals
from harness.worker.device_worker import DeviceWorker, ForwardCall
from harness.worker.supervisor import WorkerFailure

# The schedules of blocks and warps on the simulator for calls that repeat another one: with the
# same inputs, and with nearly the same ones. Opposite halves of the warps may run ahead in them.
_OTHER_SCHEDULE, _OPPOSITE_SCHEDULE = 5, 6

# Thread-instructions, some seconds of them, after which a case makes only the calls that tell most.
# A kernel with a block of 256 threads for each of 4099 small matrices takes ten times as many in
# all runs. The last runs show little that the first do not.
_MOST_OF_ALL_RUNS = 3 * 10**8
# The most thread-instructions of a call with a vast input. The few blocks of most kernels take a
# tenth of that.
_MOST_OF_VAST = 3 * 10**8
# The most numbers in inputs that are drawn on the CPU. No case on the simulator has more.
_MOST_DRAWN = 1 << 22


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
        self._alike: bool | None = None
        self._evidence = CaseEvidence()
        self._current: tuple[Call, CaseValues] | None = None
        self._kernels: tuple[KernelProfile, ...] = ()
        own_work = OwnWork(problem, case, worker.source)
        self._judge = CallJudge(problem, case, self._evidence, own_work, oracle_device, division)
        self._calls = calls_for(problem, case)
        self._repetition = Repetition(self._calls)
        self._is_on_gpu = oracle_device.type == "cuda"
        self._is_own = case.label in OWN
        # Above this size, drawing on the CPU takes minutes.
        numbers = sum(map(math.prod, case.input_shapes))
        self._drawing_device = oracle_device if numbers > _MOST_DRAWN else torch.device("cpu")
        self._weights: Mapping[str, str] = {}
        self._drawn: dict[Weights, Mapping[str, Tensor]] = {}
        self._layouts = LayoutCalls(
            problem,
            case,
            worker.source,
            self._evidence,
            self._forward,
            self._call_and_judge,
            is_on_gpu=self._is_on_gpu,
        )

    @property
    def _reporting(self) -> CaseReporting:
        """The maker of the report of the calls that were made so far."""
        return CaseReporting(self._case, self._own, self._evidence, self._calls)

    def run(self) -> CaseOutcome:
        """Construct the model, make every call, and judge the outputs."""
        worker_failed, is_over_budget = False, False
        wrong_inputs = ""
        try:
            self._construct()
            self._run_calls()
        except StepFault as fault:
            self._evidence.take(fault.findings)
            self._note_missing_output()
            report = self._reporting.stopped(fault.stop)
            # In a sample of blocks, a case is also not run if its outputs cannot be judged.
            is_over_budget = report.verdict == "not run" and self._sample is None
        except WorkerFailure as failure:
            worker_failed = True
            report = self._reporting.stopped(self._why(failure))
        else:
            report = self._reporting.of_all_calls()
            found = (each.mismatch for each in self._evidence.comparisons.values() if each.mismatch)
            # A number that is not finite is given as text.
            is_finite = not all(isinstance(each.actual, str) for each in found)
            wrong_inputs = verdict.name_wrong_inputs(
                self._calls, report.wrong_runs, is_finite=is_finite
            )
        return CaseOutcome(
            report,
            self._case,
            self._evidence.wrong,
            None if self._evidence.wrong else self._evidence.other,
            self._evidence.wrong_shape,
            self._alike,
            worker_failed,
            wrong_inputs,
            self._kernels,
            self._spent,
            tuple(self._evidence.roundings),
            self._evidence.division if report.verdict == "passed" else None,
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
                    if self._evidence.is_amiss or not self._layouts.takes(call, values, aside):
                        return
                    continue
                made = self._forward(call, values)
                aside.start(self._judge.judge, made)
                if self._is_on_gpu:
                    # Values may take gigabytes, so those of two calls are not kept at once.
                    aside.finish()
                    del values, made
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
        self._evidence.findings += model.findings
        self._alike = self._conversation.match(first, model, lambda: unused_weights(self._problem))

    def _forward(self, call: Call, values: CaseValues) -> MadeCall:
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
        found: Sequence[Finding] = ()
        if counted:
            kernels = called.kernels
            self._kernels = kernels if is_first else self._kernels
            found = self._judge_counters(call, totals(kernels))
        return MadeCall(call, values, called, self._weights, found, call is self._calls[0])

    def _call_and_judge(self, call: Call, values: CaseValues, aside: Aside) -> None:
        aside.start(self._judge.judge, self._forward(call, values))
        aside.finish()

    def _judge_counters(self, call: Call, counted: Totals) -> tuple[Finding, ...]:
        """Judge the arithmetic of a call; add a further call if a repeated call did less."""
        when = "when the same inputs were given again, " if call.kind == "again" else ""
        found = judge_arithmetic(self._judge.own_work.need, counted.flop, when)
        if not self._repetition.includes(call):
            return found
        kept = self._repetition.add(call, counted)
        if call.kind == "again" and self._repetition.control:
            after = self._calls.index(call) + 1
            self._calls = (*self._calls[:after], self._repetition.control, *self._calls[after:])
        return (*found, *kept)

    def _output_elements(self) -> int:
        shapes = self._judge.output_shapes
        return sum(map(math.prod, shapes)) if shapes else MOST_ELEMENTS

    def _note_missing_output(self) -> None:
        """Store the current call as a failure without output, if a kernel has a failing finding."""
        failing = [each for each in failing_findings(self._evidence.findings) if each.kernel]
        shapes = self._judge.output_shapes
        if self._current is None or not failing or not shapes:
            return
        if self._is_on_gpu or math.prod(shapes[0]) > MOST_REMEMBERED:
            return
        call, values = self._current
        self._evidence.other = self._evidence.other or WrongOutput(
            call.run, values, torch.empty(0), None, has_gaps=True
        )
