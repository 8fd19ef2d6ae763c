"""From the cases of a submission to its report: what only all of them together can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.case_check import CaseOutcome
from harness.diagnose import WrongRun, diagnose, diagnose_length
from harness.mistakes import Operands
from harness.oracle import CLASSES, Precision
from harness.pattern import smallest, what_failing_cases_share
from harness.report import CaseReport, Report, overall

# Enough to tell the known mistakes apart; each costs a few convolutions in float64.
_DIAGNOSED_CASES = 12


def conclude(blank: Report, outcomes: Sequence[CaseOutcome]) -> Report:
    """Add the cases to a report, with the verdict, the precision class and a diagnosis."""
    failed = [outcome for outcome in outcomes if outcome.report.verdict == "failed"]
    judged = [o.case for o in outcomes if o.report.verdict in ("passed", "failed")]
    smallest_failure = smallest([o.case for o in failed]).id if failed else ""
    diagnosis = _diagnosis(failed)
    cases = tuple(
        replace(o.report, diagnosis=o.report.diagnosis or diagnosis)
        if o.report.verdict == "failed"
        else o.report
        for o in outcomes
    )
    report = replace(
        blank,
        verdict=overall(cases),
        cases=cases,
        smallest_failure=smallest_failure,
        shared=what_failing_cases_share(judged, [o.case.id for o in failed]),
        precision=_precision(cases),
        counters=next((o.counters for o in outcomes if o.counters), None),
        notes=(*blank.notes, *_notes(outcomes)),
    )
    return replace(report, message=_message(report))


def _diagnosis(failed: Sequence[CaseOutcome]) -> str:
    wrong = []
    for outcome in failed:
        if outcome.wrong and outcome.case.arguments.keys() >= {"in_channels", "kernel_size"}:
            weights = outcome.wrong.values.weights
            weight = next(v for n, v in weights.items() if n.rpartition(".")[2] == "weight")
            bias = next((v for n, v in weights.items() if n.rpartition(".")[2] == "bias"), None)
            (x,) = outcome.wrong.values.inputs
            operands = Operands.of(outcome.case.convolution, x, weight, bias)
            run = WrongRun(operands, outcome.wrong.actual, outcome.wrong.unwritten)
            wrong.append((outcome.case, run))
    wrong.sort(key=lambda pair: pair[0].convolution.work)
    # From the smallest to the largest: small cases alone leave several mistakes alike.
    step = max(1, len(wrong) // _DIAGNOSED_CASES)
    found = diagnose([run for _, run in wrong[::step]])
    if found:
        return f"{found.name}: {found.advice}"
    lengths = [(o.case.convolution, o.wrong_length) for o in failed if o.wrong_length is not None]
    return diagnose_length(lengths) or ""


def _precision(cases: Sequence[CaseReport]) -> Precision | None:
    """The tightest class that holds in all cases that passed; a looser one holds there too."""
    held = {case.precision for case in cases if case.verdict == "passed"}
    return next((c.name for c in reversed(CLASSES) if c.name in held), None)


def _message(report: Report) -> str:
    if report.verdict == "passed":
        return ""
    if report.smallest_failure and report.verdict == "failed":
        return report.case(report.smallest_failure).message
    first = next((c for c in report.cases if c.verdict == report.verdict), None)
    return first.message if first else "no case was run"


def _notes(outcomes: Sequence[CaseOutcome]) -> list[str]:
    differ = sum(outcome.initialised_alike is False for outcome in outcomes)
    if not differ:
        return []
    compared = sum(outcome.initialised_alike is not None for outcome in outcomes)
    return [
        f"after the same torch.manual_seed, ModelNew's own weights differ from the reference's in "
        f"{differ} of {compared} cases"
    ]
