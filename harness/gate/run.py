"""Evaluation of the old and new version of each changed submission, and the gate's decisions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch

from harness.engines.engine import EngineChoice, evaluate_all
from harness.engines.evaluator import EvaluationError
from harness.engines.progress import ProgressLines
from harness.evaluate import OnProgress, Request
from harness.gate.before import RecordError
from harness.gate.correctness import what_got_worse, what_is_wrong
from harness.gate.decision import Change, Decision
from harness.gate.evidence import SpeedEvidence
from harness.gate.plan import VersionPair
from harness.gate.settings import Thresholds
from harness.problems.discovery import Submission
from harness.problems.grid import Case, Grid, Label, case_again
from harness.problems.problem import Problem
from harness.records.report import CaseReport, Report
from harness.requesting import Requests
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system.processors import cores_each


@dataclass(frozen=True)
class GateOptions:
    """The gate's options.

    Attributes:
        requests: Maker of the requests of both versions. If the old version is a recorded report,
            the grid and seed of that report are used instead.
        jobs: Number of evaluations at a time.
        engine: The engine that runs the evaluations.
        allow_new: Whether a submission without an old version may pass the gate.
    """

    requests: Requests
    jobs: int
    allow_new: bool
    engine: EngineChoice = field(default_factory=EngineChoice)

    def measure(self, plan: SpeedPlan) -> Measurement:
        """Time the submissions of a plan on a GPU on which the harness runs nothing else.

        Raises:
            harness.speed.contender.ContenderError: A submission cannot be timed, or returned a
                wrong output.
            EvaluationError: The engine cannot time anything.
        """
        with self.engine.start(1, 1) as engine:
            return engine.measure(plan).result()


@dataclass(frozen=True)
class _Asked:
    """A pair of versions and their requests; None for a version that is not to be evaluated."""

    pair: VersionPair
    head: Request | None = None
    base: Request | None = None


@dataclass(frozen=True)
class _EvaluatedPair:
    """A pair of versions and their results; None for a version that was not evaluated."""

    pair: VersionPair
    head: Report | EvaluationError | None
    base: Report | EvaluationError | None


def decide(
    pairs: Sequence[VersionPair],
    options: GateOptions,
    evidence: SpeedEvidence,
    thresholds: Thresholds,
) -> list[Decision]:
    """Evaluate every changed pair of versions, and return the decisions in the order of the pairs.

    Raises:
        harness.system.errors.MachineError: This machine cannot evaluate anything.
    """
    changed = [pair for pair in pairs if pair.is_changed]
    cores = cores_each(options.jobs, 2 * len(changed))
    asked = [_requests_of(pair, options, cores) for pair in changed]
    requests = [request for each in asked for request in (each.head, each.base) if request]
    if requests:
        options.engine.prepare()
    # All evaluations finish before the first measurement, because a GPU that times must be idle.
    engine = options.engine.start(options.jobs, len(requests))
    lines, of_base = ProgressLines(sys.stderr), {id(each.base) for each in asked if each.base}

    def follow(request: Request) -> OnProgress:
        return lines.follow(request, "base" if id(request) in of_base else "this tree")

    results = dict(evaluate_all(engine, requests, follow))
    in_order = (results[place] for place in range(len(requests)))
    sides = [
        _EvaluatedPair(
            each.pair,
            next(in_order) if each.head else None,
            next(in_order) if each.base else None,
        )
        for each in asked
    ]
    return [_decision(each, options, evidence, thresholds) for each in sides]


def _requests_of(pair: VersionPair, options: GateOptions, cores: int) -> _Asked:
    before = pair.before
    if pair.head is None or pair.unread or (before is None and not options.allow_new):
        return _Asked(pair)
    making, problem = options.requests, pair.problem
    base = None
    also: tuple[Case, ...] = ()
    if before and before.report:
        recorded = before.report
        given = replace(making.options, grid=cast(Grid, recorded.grid))
        making = replace(making, options=given, seed=recorded.seed)
        also = _recorded_cases(pair, pair.head, recorded)
    elif before and before.submission:
        also = making.cases(problem, before.submission)
        base = making.request(before.submission.path, problem.path, also, cores=cores)
    # The head also runs the base's cases. A constructor that takes fewer arguments than before
    # would otherwise lose the cases that it fails.
    own = making.cases(problem, pair.head)
    known = {case.id for case in own}
    more = (case for case in also if case.id not in known)
    head = making.request(pair.head.path, problem.path, (*own, *more), cores=cores)
    return _Asked(pair, head, base)


def _recorded_cases(pair: VersionPair, head: Submission, report: Report) -> tuple[Case, ...]:
    """Return the cases of a recorded report, to be run again on the present submission.

    The reference's own configuration is left out, because every grid has it.

    Raises:
        RecordError: A recorded case does not fit the present problem.
    """
    for case in report.cases:
        why_not = _why_no_case(pair.problem, case)
        if case.label in ("grid", "corner") and why_not:
            where = f"the record of {report.submission} on {report.problem}"
            raise RecordError(
                f"{where} has a case that cannot be run ({case.id}: {why_not}); record it again"
            )
    return tuple(
        case_again(
            pair.problem,
            head,
            case.id,
            cast(Label, case.label),
            case.arguments,
            case.input_shapes,
            case.constants,
            seed=report.seed,
        )
        for case in report.cases
        if case.label in ("grid", "corner")
    )


def _why_no_case(problem: Problem, case: CaseReport) -> str:
    shapes = case.input_shapes
    if len(shapes) != len(problem.inputs) or any(size < 0 for shape in shapes for size in shape):
        return "its inputs do not fit the reference"
    try:
        with torch.device("meta"):
            problem.at(case.constants).build(case.arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _decision(
    sides: _EvaluatedPair, options: GateOptions, evidence: SpeedEvidence, thresholds: Thresholds
) -> Decision:
    pair = sides.pair
    threshold = thresholds.of(pair.problem.name)
    change, line = _change(sides, options, evidence, threshold)
    head, base = (each if isinstance(each, Report) else None for each in (sides.head, sides.base))
    recorded = pair.before.report if pair.before else None
    return Decision(
        pair.submission, pair.problem.name, change, pair.path, line, head, base or recorded
    )


def _change(
    sides: _EvaluatedPair, options: GateOptions, evidence: SpeedEvidence, threshold: float
) -> tuple[Change, int | None]:
    """Return the outcome for a pair of versions, and the line number that causes it, if known."""
    pair, before = sides.pair, sides.pair.before
    if pair.head is None:
        if pair.path is None:
            return Change("removed", "", "only the base has it"), None
        return Change(
            "refused", "", f"is no longer a submission for this problem: {pair.fault}"
        ), None
    if pair.unread:
        return Change("missing", "", f"the base's file cannot be read: it {pair.unread}"), None
    if before is None and not options.allow_new:
        return Change(
            "missing", "", "the base does not have it; --allow-new accepts new submissions"
        ), None
    head, base = sides.head, sides.base or (before.report if before else None)
    if isinstance(head, EvaluationError) or isinstance(base, EvaluationError):
        error = head if isinstance(head, EvaluationError) else base
        return Change("refused", "", f"cannot be evaluated: {error}"), None
    assert head is not None  # noqa: S101 - for the type checker
    if before is None:
        return _of_new(head)
    least = before.result.precision if before.result else None
    # Correctness decides first; a faster kernel with wrong results is refused.
    worse = what_got_worse(base, head) if base else what_is_wrong(head, least)
    if worse:
        return Change("refused", "", worse.reason), worse.line
    if base and not base.is_right:
        if head.is_right:
            return Change("fixed", "", f"the base is {base.verdict}: {base.message}"), None
        return Change("same", "", f"is {head.verdict}, as in the base: {head.message}"), None
    return evidence(pair, head, base, threshold), None


def _of_new(head: Report) -> tuple[Change, int | None]:
    worse = what_is_wrong(head, None)
    if worse:
        return Change("refused", "", f"is new and {worse.reason}"), worse.line
    how = f", {head.precision}" if head.verdict == "passed" else ""
    return Change("new", "", f"{head.verdict}{how}"), None
