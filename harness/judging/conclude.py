"""From the cases of a submission to its report: what only all of them together can tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.judging.case_check import CaseOutcome
from harness.judging.diagnose import WrongRun, diagnose
from harness.judging.kinds import of_one_kind, others
from harness.judging.oracle import CLASSES
from harness.judging.pattern import smallest, what_failing_cases_share
from harness.problems import families
from harness.problems.families.family import Family
from harness.problems.grid import OWN
from harness.records.comparison import Precision
from harness.records.report import AMISS, CaseReport, Report, Verdict, overall

# Of failing cases; 6 that all leave out an argument by chance are one in 64.
_ENOUGH_FAILURES = 6


def conclude(blank: Report, outcomes: Sequence[CaseOutcome]) -> Report:
    """Add the cases to a report, with the verdict, the precision class and a diagnosis."""
    failed = [outcome for outcome in outcomes if outcome.report.verdict == "failed"]
    # What fails at random sizes may pass at the next, and layouts are no sizes at all.
    judged = [
        o.case
        for o in outcomes
        if o.report.verdict in ("passed", "failed") and o.case.label not in ("random", "layout")
    ]
    diagnosis = wrong_defaults(failed, outcomes) or _diagnosis(failed)
    cases = tuple(
        replace(o.report, diagnosis=o.report.diagnosis or diagnosis)
        if o.report.verdict == "failed"
        else o.report
        for o in outcomes
    )
    amiss = [case for case in cases if case.verdict in AMISS]
    shown = of_one_kind(amiss) if amiss else []
    report = replace(
        blank,
        verdict=_verdict(cases),
        cases=cases,
        own_configuration=next((case.verdict for case in cases if case.label in OWN), None),
        smallest_failure=_smallest(outcomes, shown),
        other_failures=others(amiss, shown),
        shared=what_failing_cases_share(judged, [o.case.id for o in failed]),
        precision=_precision(cases),
        counters=next((o.counters for o in outcomes if o.counters), None),
        notes=(*blank.notes, *_notes(outcomes)),
    )
    if report.is_right:
        # What a wrong one makes of inputs that nobody gives it is not what its author looks for.
        report = replace(report, notes=(*report.notes, *_notes_of_cases(cases)))
    return replace(report, message=_message(report))


def _verdict(cases: Sequence[CaseReport]) -> Verdict:
    verdict = overall(cases)
    is_estimated = any(case.estimated for case in cases)
    return "agrees" if verdict == "passed" and is_estimated else verdict


def _smallest(outcomes: Sequence[CaseOutcome], shown: Sequence[CaseReport]) -> str:
    """Id of the smallest of some cases; empty for none."""
    ids = {report.id for report in shown}
    return smallest([o.case for o in outcomes if o.case.id in ids]).id if ids else ""


def wrong_defaults(failed: Sequence[CaseOutcome], outcomes: Sequence[CaseOutcome]) -> str:
    """Say which default of ModelNew's is not Model's; empty where nothing speaks for that.

    Whether a case leaves an argument to its default is drawn beside its sizes: a mistake that has
    nothing to do with that fails as many cases that give it.
    """
    if len(failed) < _ENOUGH_FAILURES:
        return ""
    passed = [o for o in outcomes if o.report.verdict == "passed"]
    names = frozenset.intersection(*(o.case.left_to_defaults for o in failed))
    suspects = sorted(
        name
        for name in names
        if sum(name in o.case.left_to_defaults for o in passed) <= len(failed)
        and sum(name not in o.case.left_to_defaults for o in passed) >= _ENOUGH_FAILURES
    )
    if len(suspects) != 1:
        return ""
    return (
        f"another default: every failing case leaves out {suspects[0]}, and none that gives it "
        f"fails; ModelNew's default for it is not Model's."
    )


def _diagnosis(failed: Sequence[CaseOutcome]) -> str:
    if not failed:
        return ""
    family = families.named(failed[0].case.family)
    found = diagnose([*_wrong_runs(family, failed)], family.mistakes)
    if found:
        return f"{found.name}: {found.advice}"
    lengths = [(o.case, o.wrong_length) for o in failed if o.wrong_length is not None]
    return family.explain_lengths(lengths)


def _wrong_runs(family: Family, failed: Sequence[CaseOutcome]) -> Iterator[WrongRun]:
    for outcome in failed:
        wrong = outcome.wrong
        if wrong:
            right = family.computation(outcome.case, wrong.values.weights, wrong.values.inputs)
            if right:
                yield WrongRun(right, wrong.actual, wrong.unwritten)


def _precision(cases: Sequence[CaseReport]) -> Precision | None:
    """The tightest class that holds in all cases that passed; a looser one holds there too."""
    held = {case.precision for case in cases if case.verdict == "passed"}
    return next((c.name for c in reversed(CLASSES) if c.name in held), None)


def _message(report: Report) -> str:
    if report.is_right:
        return ""
    if report.smallest_failure:
        return report.case(report.smallest_failure).message
    left_out = next((case for case in report.cases if case.verdict == "not run"), None)
    if left_out and report.verdict == "unsupported":
        return f"the simulator is too slow for it: {left_out.message}"
    first = next((c for c in report.cases if c.verdict == report.verdict), None)
    return first.message if first else "no case was run"


def _notes(outcomes: Sequence[CaseOutcome]) -> list[str]:
    left_out = [o.report for o in outcomes if o.report.verdict == "not run"]
    told = []
    # Where a worker had to be given up, what it did not run any more has no reason of its own.
    if left_out and not any(outcome.worker_failed for outcome in outcomes):
        told = [f"{left_out[0].id}{_and_others(left_out)}: {left_out[0].message}"]
    differ = sum(outcome.initialised_alike is False for outcome in outcomes)
    if not differ:
        return told
    compared = sum(outcome.initialised_alike is not None for outcome in outcomes)
    return [
        *told,
        f"after the same torch.manual_seed, ModelNew's own weights differ from the reference's in "
        f"{differ} of {compared} cases",
    ]


def _notes_of_cases(cases: Sequence[CaseReport]) -> list[str]:
    return list(dict.fromkeys(note for case in cases for note in case.notes))


def _and_others(cases: Sequence[CaseReport]) -> str:
    return f" and {len(cases) - 1} other cases" if len(cases) > 1 else ""
