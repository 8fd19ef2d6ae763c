"""Choice of the failing cases that get a picture, with the output that the diagnosis predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.judging.case_outcome import CaseOutcome
from harness.judging.diagnose import Diagnosis, output_of
from harness.judging.picture import (
    MOST_COLUMNS,
    MOST_ROWS,
    MistakenOutput,
    WrongOutput,
    picture,
)
from harness.problems import families
from harness.problems.problem import Problem
from harness.problems.values import runs_for, values_for
from harness.records.picture import Picture
from harness.records.report import Report

# The most pictures of other kinds of failure than the one that is shown.
_MOST_OTHER_PICTURES = 3
# Rows and columns of a picture that shows enough; more of them show no more.
_MANY_ROWS, _MANY_COLUMNS = 8, 48
# Fewer elements show nothing, even if some are right.
_ENOUGH = 100
# The page at address 0, which a kernel reads through a null pointer.
_NULL_PAGE = range(4096)
# The most passed cases that are looked at.
_PASSED = 3


def illustrated(
    report: Report, outcomes: Sequence[CaseOutcome], problem: Problem, known: Diagnosis | None
) -> Report:
    """Return the report with pictures of the smallest, a larger and up to three other failures."""
    others_shown = [other.case for other in report.other_failures][:_MOST_OTHER_PICTURES]
    wanted = {report.smallest_failure, _most_informative_case(outcomes), *others_shown}
    wrong = {o.case.id: o for o in outcomes if (o.wrong or o.other) and o.case.id in wanted}
    pictures = {name: _picture(outcome, problem, known) for name, outcome in wrong.items()}
    cases = (
        replace(case, picture=pictures[case.id]) if case.id in pictures else case
        for case in report.cases
    )
    return replace(report, cases=tuple(cases))


def _most_informative_case(outcomes: Sequence[CaseOutcome]) -> str:
    """Return the id of the failing case whose output shows most, or "" if there is no output.

    An output is preferred if the error map has room for all of its elements, if it has at least 100
    of them, and if some of them are right.
    """

    def tells(outcome: CaseOutcome) -> tuple[bool, bool, bool, int, str]:
        wrong = outcome.wrong or outcome.other
        shape = wrong.actual.shape if wrong else ()
        rows, columns = ([1, 1, *shape])[-2:]
        is_whole = rows <= MOST_ROWS and columns <= MOST_COLUMNS
        area = min(rows, _MANY_ROWS) * min(columns, _MANY_COLUMNS)
        mismatch = outcome.report.comparison and outcome.report.comparison.mismatch
        is_partly_right = not mismatch or mismatch.count < mismatch.total
        return is_whole, area >= _ENOUGH, is_partly_right, area, outcome.case.id

    # An output with wrong numbers shows more than one of another shape, or one with stores beside
    # it. If a case gave no output, the smallest such case shows everything.
    others = [o for o in outcomes if o.other and o.other.actual.numel()]
    drawn = [o for o in outcomes if o.wrong] or others
    return max(drawn, key=tells).case.id if drawn else ""


def _picture(outcome: CaseOutcome, problem: Problem, known: Diagnosis | None) -> Picture | None:
    wrong = outcome.wrong or outcome.other
    if wrong is None:
        return None
    mistaken = _mistaken(outcome, wrong, known)
    at = problem.at(outcome.case.constants).each_output()[wrong.output]
    return picture(at, outcome.case, wrong, mistaken)


def _mistaken(
    outcome: CaseOutcome, wrong: WrongOutput, known: Diagnosis | None
) -> MistakenOutput | None:
    """Return what the diagnosed mistake gives for the values of the call, or None if unknown."""
    if outcome.wrong is None:
        if not wrong.actual.numel():
            # The call gave no output. The diagnosed mistake reads an operand that does not exist,
            # so it has no numbers either.
            return MistakenOutput(known.name, is_from_outside=True) if known else None
        if wrong.beside:
            return MistakenOutput("only stores outside the output")
        return MistakenOutput("only another shape")
    family = families.named(outcome.case.family)
    right = family.computation(outcome.case, wrong.values.weights, wrong.values.inputs)
    if known and known.made and right:
        output = output_of(known.made, right)
        return MistakenOutput(known.name, output, is_from_outside=bool(output.isnan().any()))
    return None


def missing_parameter_diagnosis(
    failed: Sequence[CaseOutcome], outcomes: Sequence[CaseOutcome], problem: Problem
) -> Diagnosis | None:
    """Return a diagnosis if kernels read a parameter that failing cases do not have, or None.

    The diagnosis needs two signs. Every failing case reads a null pointer. Exactly one parameter
    exists in all of the first few passed cases, and in no failing case.
    """
    stopped = [outcome.other for outcome in failed if outcome.other and not outcome.wrong]
    if len(stopped) < len(failed) or not stopped:
        return None
    if not all(_reads_null(outcome) for outcome in failed):
        return None
    passed = [o.case for o in outcomes if o.report.verdict == "passed"][:_PASSED]
    names: set[str] = set()
    for number, case in enumerate(passed):
        at = problem.at(case.constants)
        own = set(values_for(at, case, runs_for(at)[0]).weights)
        names = names & own if number else own
    names -= {name for other in stopped for name in other.values.weights}
    if len(names) != 1:
        return None
    name = names.pop().rpartition(".")[2]
    return Diagnosis(
        f"{name} read although it does not exist",
        f"Every case without {name} reads a null pointer, and no case with {name} fails; "
        "test for it before reading it.",
    )


def _reads_null(outcome: CaseOutcome) -> bool:
    loads = (each for each in outcome.report.findings if each.access == "load")
    return any(each.check == "memcheck" and each.address in _NULL_PAGE for each in loads)
