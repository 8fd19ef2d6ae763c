"""The report of a submission, made from the outcomes of its cases.

Verdict, precision class, pattern and diagnosis need all cases together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from harness.judging.case_outcome import CaseOutcome
from harness.judging.diagnose import Diagnosis, WrongRun, diagnose
from harness.judging.general import Seen, guess
from harness.judging.illustrate import illustrated, missing_parameter_diagnosis
from harness.judging.kept_bits import describe
from harness.judging.kinds import other_kinds, shown_kind
from harness.judging.oracle import CLASSES
from harness.judging.pattern import smallest, what_failing_cases_share
from harness.judging.picture import WrongOutput
from harness.judging.verdict import FALLS_BACK
from harness.problems import families
from harness.problems.families.family import Family
from harness.problems.grid import OWN, Case
from harness.problems.mistakes import Computation
from harness.problems.problem import Problem
from harness.problems.values import runs_for, values_for
from harness.records.comparison import Precision
from harness.records.coverage import Coverage
from harness.records.report import AMISS, CaseReport, Report, Verdict, overall
from harness.simulator.counters.by_line import LineCounters, by_line
from harness.simulator.counters.totals import totals
from harness.simulator.ptx.by_line import PtxOfLine

# The most passed cases that a mistake is tried on, the smallest first. So many include enough
# different sizes.
_PASSED = 40
# The fewest cases that fail without an argument, and that pass with it. By chance, 6 cases all
# leave out an argument once in 64 times.
_ENOUGH_FAILURES = 6
# The most lines that a diagnosis names.
_MOST_LINES = 6


def conclude(blank: Report, outcomes: Sequence[CaseOutcome], problem: Problem) -> Report:
    """Return `blank` completed by the cases' reports, verdict, precision class and diagnosis."""
    failed = [outcome for outcome in outcomes if outcome.report.verdict == "failed"]
    # Random sizes differ from run to run, and layouts are not sizes. Neither helps to find a
    # pattern.
    judged = [
        o.case
        for o in outcomes
        if o.report.verdict in ("passed", "failed")
        and o.case.label not in ("random", "layout", "vast")
    ]
    known = _known_mistake(failed, outcomes, problem)
    absent = None if known else missing_parameter_diagnosis(failed, outcomes, problem)
    # The first explanation that applies is the diagnosis.
    diagnosis = (
        wrong_defaults(failed, outcomes)
        or unset_variable(failed, blank.coverage)
        or _diagnosis(failed, known or absent)
    )
    cases = tuple(
        replace(o.report, diagnosis=o.report.diagnosis or diagnosis or o.wrong_inputs)
        if o.report.verdict == "failed"
        else o.report
        for o in outcomes
    )
    verdict = _verdict(cases)
    amiss = [case for case in cases if case.verdict in AMISS]
    deciding = [case for case in amiss if case.verdict == verdict]
    shown = shown_kind(deciding) if deciding else []
    kernels = next((o.kernels for o in outcomes if o.kernels), ())
    lines = by_line(kernels, Path(blank.path).name)
    report = replace(
        blank,
        verdict=verdict,
        cases=cases,
        own_configuration=next((case.verdict for case in cases if case.label in OWN), None),
        smallest_failure=_smallest(outcomes, shown),
        other_failures=other_kinds(amiss, shown),
        shared=what_failing_cases_share(judged, [o.case.id for o in failed]),
        precision=_precision(cases),
        counters=totals(kernels) if kernels else None,
        lines=lines,
        ptx=_ptx_of_reported_lines(blank.ptx, lines, cases),
        notes=(*blank.notes, *_notes(outcomes)),
    )
    if report.is_right:
        # The author of a wrong submission does not look for notes about unusual inputs.
        rounded = describe(rounding for o in outcomes for rounding in o.roundings)
        report = replace(report, notes=(*rounded, *report.notes, *_notes_of_cases(cases)))
    report = illustrated(report, outcomes, problem, known or absent)
    return replace(report, message=_message(report))


def _ptx_of_reported_lines(
    ptx: Sequence[PtxOfLine], lines: Sequence[LineCounters], cases: Sequence[CaseReport]
) -> tuple[PtxOfLine, ...]:
    """Return the PTX of the source lines that have counters or a finding."""
    told = {line.line for line in lines} | {f.line for case in cases for f in case.findings}
    return tuple(each for each in ptx if each.line in told)


def _verdict(cases: Sequence[CaseReport]) -> Verdict:
    """Return the verdict on a submission: `agrees` if it passed, but some bound is estimated."""
    verdict = overall(cases)
    is_estimated = any(case.estimated for case in cases)
    return "agrees" if verdict == "passed" and is_estimated else verdict


def _smallest(outcomes: Sequence[CaseOutcome], shown: Sequence[CaseReport]) -> str:
    """Return the id of the smallest of the cases in `shown`, or "" if `shown` is empty."""
    ids = {report.id for report in shown}
    return smallest([o.case for o in outcomes if o.case.id in ids]).id if ids else ""


def wrong_defaults(failed: Sequence[CaseOutcome], outcomes: Sequence[CaseOutcome]) -> str:
    """Name the default of ModelNew that differs from Model's, or return "" without evidence.

    Each case decides at random, independently of sizes, whether it passes an argument or leaves the
    default. So it is evidence if every failing case leaves the same argument to its default. If the
    mistake had nothing to do with defaults, about half of these cases would pass the argument.
    """
    if len(failed) < _ENOUGH_FAILURES:
        return ""
    passed = [o for o in outcomes if o.report.verdict == "passed"]
    names = frozenset.intersection(*(o.case.left_to_defaults for o in failed))
    leaving = {name: sum(name in o.case.left_to_defaults for o in passed) for name in names}
    suspects = sorted(
        name
        for name, count in leaving.items()
        if count <= len(failed) and len(passed) - count >= _ENOUGH_FAILURES
    )
    if len(suspects) > 1:
        # If the submission declines every case that passes an argument, all other cases leave it
        # out.
        suspects = [name for name in suspects if not leaving[name]]
    if len(suspects) != 1:
        return ""
    return (
        f"another default: every failing case leaves out {suspects[0]}, and no case that "
        "gives it fails; give ModelNew the same default as Model."
    )


def unset_variable(failed: Sequence[CaseOutcome], coverage: Coverage | None) -> str:
    """Name the lines that read a variable that nothing has set, if that explains every failure.

    The simulator fills registers that nothing has set like fresh memory, so results from them are
    NaN.
    """
    wrong = [outcome.wrong for outcome in failed if outcome.wrong]
    if not coverage or not coverage.unset or len(wrong) < len(failed) or not wrong:
        return ""
    if any(each.has_gaps for each in wrong):
        return ""
    # An unwritten element is NaN too, but it has another name.
    if not all(bool(_written_nans(each).any()) for each in wrong):
        return ""
    lines = ", ".join(map(str, coverage.unset[:_MOST_LINES]))
    return (
        "uninitialised variable: the wrong values are NaN and come from a variable that "
        f"was never set; it is read in one of these lines: {lines}."
    )


def _written_nans(wrong: WrongOutput) -> Tensor:
    nans = wrong.actual.isnan()
    return nans if wrong.unwritten is None else nans & ~wrong.unwritten


def _known_mistake(
    failed: Sequence[CaseOutcome], outcomes: Sequence[CaseOutcome], problem: Problem
) -> Diagnosis | None:
    """Return the diagnosis that names a mistake which gives every wrong output, or None."""
    if not failed:
        return None
    family = families.named(failed[0].case.family)
    runs = [*_wrong_runs(family, failed)]
    if runs:
        return diagnose(runs, family.mistakes, [*_passed_computations(family, outcomes, problem)])
    # A mistake explains wrong numbers only, so every failure has to be one.
    if any(o.wrong is None or o.wrong.has_gaps for o in failed):
        return None
    wrong = [(o.case, o.wrong) for o in failed if o.wrong]
    if len({each.output for _, each in wrong}) > 1:
        # A mistake in one output says nothing about another output.
        return None
    return guess([_seen(problem, case, each) for case, each in wrong])


def _seen(problem: Problem, case: Case, wrong: WrongOutput) -> Seen:
    return Seen(problem.at(case.constants).each_output()[wrong.output], case, wrong)


def _passed_computations(
    family: Family, outcomes: Sequence[CaseOutcome], problem: Problem
) -> Iterator[Computation]:
    """Yield the right computation of each of the smallest passed cases (`Family.computation`)."""
    passed = [o.case for o in outcomes if o.report.verdict == "passed"]
    for case in sorted(passed, key=family.work)[:_PASSED]:
        at = problem.at(case.constants)
        values = values_for(at, case, runs_for(at)[0])
        right = family.computation(case, values.weights, values.inputs)
        if right:
            yield right


def _diagnosis(failed: Sequence[CaseOutcome], known: Diagnosis | None) -> str:
    """Return the diagnosis as text: the known mistake, or what wrong shapes suggest; or ""."""
    if known:
        return f"{known.name}: {known.advice}"
    if not failed:
        return ""
    family = families.named(failed[0].case.family)
    shapes = [(o.case, o.wrong_shape) for o in failed if o.wrong_shape is not None]
    return family.explain_shapes(shapes)


def _wrong_runs(family: Family, failed: Sequence[CaseOutcome]) -> Iterator[WrongRun]:
    """Yield the wrong outputs of failed cases, each with the right computation.

    Cases without a wrong output, or without a right computation, are left out.
    """
    for outcome in failed:
        wrong = outcome.wrong
        if wrong:
            right = family.computation(outcome.case, wrong.values.weights, wrong.values.inputs)
            if right:
                unwritten = wrong.unwritten
                if wrong.has_gaps:
                    unwritten = torch.zeros_like(wrong.actual, dtype=torch.bool)
                yield WrongRun(right, wrong.actual, unwritten)


def _precision(cases: Sequence[CaseReport]) -> Precision | None:
    """Return the tightest class that holds in all passed cases, or None.

    This is the loosest class among the cases, because a looser class holds wherever a tighter one
    does.
    """
    held = {case.precision for case in cases if case.verdict == "passed"}
    return next((c.name for c in reversed(CLASSES) if c.name in held), None)


def _message(report: Report) -> str:
    """Return the message of the case that the report shows, or "" for a right submission."""
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
    """Return notes on the submission: cases left out, cases left to torch, and initial weights.

    The note on initial weights says in how many cases ModelNew initialises other weights than the
    reference after the same seed.
    """
    left_out = [o.report for o in outcomes if o.report.verdict == "not run"]
    # After a worker's failure, the cases that it no longer ran have no reason of their own.
    if any(outcome.worker_failed for outcome in outcomes):
        left_out = []
    left_to_torch = [o.report for o in outcomes if o.report.message.startswith(FALLS_BACK)]
    told = [
        f"{cases[0].id}{_and_others(cases)}: {cases[0].message}"
        for cases in (left_out, left_to_torch)
        if cases
    ]
    differ = sum(outcome.initialised_alike is False for outcome in outcomes)
    if not differ:
        return told
    compared = sum(outcome.initialised_alike is not None for outcome in outcomes)
    return [
        *told,
        "after the same torch.manual_seed, ModelNew's own weights differ from the "
        f"reference's in {differ} of {compared} cases: a program that seeds both and "
        "copies no weights, as KernelBench does, gets other outputs",
    ]


def _notes_of_cases(cases: Sequence[CaseReport]) -> list[str]:
    return list(dict.fromkeys(note for case in cases for note in case.notes))


def _and_others(cases: Sequence[CaseReport]) -> str:
    return f" and {len(cases) - 1} other cases" if len(cases) > 1 else ""
