"""Submissions that are right at the problem's original sizes only, and not at reduced ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.judging.case_outcome import CaseOutcome
from harness.judging.integrity import LEAST_HOST_BYTES
from harness.problems.grid import OWN, Case
from harness.problems.operations import work_of
from harness.problems.problem import Problem
from harness.problems.values import output_shapes
from harness.problems.written_sizes import LEAST_SIZE, Shapes, Sign, sign_of
from harness.records.findings import failing_findings
from harness.records.report import CaseReport, Verdict, not_run

_DEPENDS_ON_SIZE: tuple[Verdict, ...] = ("failed", "error")
_DEPENDS_ON_NO_SIZE = ("own work: ", "does not compile: ")
_OF_ANY_SIZE = ("racecheck", "synccheck")
# Bytes of a float32 that the host has to read, at least, to compute a result of class fp32.
_BYTES_TO_KNOW = 3
# Limits of the oracle's work at the native size, for which it takes a minute and 3 GB at most.
_MOST_NUMBERS = 1 << 25
_MOST_PRODUCTS = 1 << 33
_MOST_OPERATORS = 1 << 11
# The share of cases at other sizes that are right by chance if a submission is written for one.
_RIGHT_BY_CHANCE = 0.1


def sign_of_own_size(
    outcome: CaseOutcome, native: Case, problem: Problem, source: str
) -> Sign | None:
    """Return how surely reduced sizes alone make a submission fail: "clear", "possible" or None.

    The own configuration has the constructor arguments of the reference's file. On the simulator,
    its input sizes may be reduced. Its native size means the input sizes in the file.

    Args:
        outcome: The outcome of the own configuration at reduced sizes.
        native: The own configuration at its native size.
        problem: The reference.
        source: The submission's text.
    """
    if outcome.case.input_shapes == native.input_shapes or not _may_be_of_size(outcome.report):
        return None
    cut = (*outcome.case.input_shapes, *_outputs(problem, outcome.case))
    own = (*native.input_shapes, *_outputs(problem, native))
    if outcome.wrong_shape in own[len(native.input_shapes) :]:
        return "clear"
    constants = [problem.constants[name] for name in outcome.case.constants]
    return sign_of(source, constants, own, cut)


def _outputs(problem: Problem, case: Case) -> Shapes:
    try:
        return output_shapes(problem.at(case.constants), case)
    except Exception:  # a reference may need values to know its shapes
        return ()


def _may_be_of_size(report: CaseReport) -> bool:
    """Return whether a case that is not right may be right at another size.

    The size does not matter if a library did the work, or if the source does not compile. Nor does
    it matter if all failing findings are of racecheck or synccheck.
    """
    if report.verdict not in _DEPENDS_ON_SIZE or report.message.startswith(_DEPENDS_ON_NO_SIZE):
        return False
    failing = failing_findings(report.findings)
    # Races alone are mistakes at every size. Accesses out of bounds may cause races, too.
    if failing and all(finding.check in _OF_ANY_SIZE for finding in failing):
        return False
    is_of_kernels = not failing or any(finding.kernel for finding in failing)
    return is_of_kernels or report.comparison is not None


def is_too_small_to_tell(case: Case) -> bool:
    """Return whether the host may read all inputs of a case, and so do its work, without a finding.

    A submission could use up the budget at larger sizes to be judged at such a size.
    """
    return _BYTES_TO_KNOW * sum(map(math.prod, case.input_shapes)) < LEAST_HOST_BYTES


def is_affordable(problem: Problem, native: Case) -> bool:
    """Return whether the oracle can compute the outputs at the native size in a minute and 3 GB."""
    try:
        operations = work_of(problem, native, _MOST_OPERATORS).operations
    except Exception:  # a reference may need values, or may have too many operators
        return False
    given = sum(map(math.prod, native.input_shapes))
    made = sum(each.made for each in operations if not each.is_view)
    products = sum(each.products for each in operations)
    return made + given <= _MOST_NUMBERS and products <= _MOST_PRODUCTS


def size_of(problem: Problem) -> str:
    """Return the shapes of the inputs in the reference's file, as text."""
    return ", ".join(map(str, problem.input_shapes))


def without_native_size(
    outcome: CaseOutcome, problem: Problem, there: CaseOutcome | None
) -> CaseOutcome:
    """Return the outcome `unsupported` of a configuration without a result at its native size.

    Args:
        outcome: The outcome at reduced sizes.
        problem: The reference.
        there: The outcome of an attempt at the native size; None if that size was not tried.
    """
    shapes = ", ".join(map(str, outcome.case.input_shapes))
    message = f"written for {size_of(problem)}, which was not run; a GPU will do"
    detail = f"cut down to {shapes}: {outcome.report.message}"
    if there:
        detail += f"\nat its native size: {there.report.message}"
    return _instead(outcome, "unsupported", message, detail)


def _instead(outcome: CaseOutcome, verdict: Verdict, message: str, detail: str) -> CaseOutcome:
    """Return an outcome with another verdict and message, and without the results of its calls."""
    report = not_run(outcome.case, message)
    report = replace(report, verdict=verdict, detail=detail, seconds=outcome.report.seconds)
    return CaseOutcome(report, outcome.case, worker_failed=outcome.worker_failed)


def is_for_own_size(own: CaseOutcome, problem: Problem, source: str) -> bool:
    """Return whether a submission is right at the native size and states that size in its text."""
    if own.report.verdict != "passed" or own.case.input_shapes != problem.input_shapes:
        return False
    shapes = (*problem.input_shapes, *_outputs(problem, own.case))
    nothing = [(0,) * len(shape) for shape in shapes]
    return sign_of(source, problem.constants.values(), shapes, nothing) == "clear"


def is_for_any_size(outcomes: Sequence[CaseOutcome], problem: Problem) -> bool:
    """Return whether a submission is right in more than a tenth of the cases of other sizes.

    If so, its failures do not come from being written for the problem's native size.
    """
    others = [each for each in outcomes if _has_other_size(each, problem)]
    right = [each for each in others if each.report.verdict == "passed"]
    return len(right) > _RIGHT_BY_CHANCE * len(others)


def _has_other_size(outcome: CaseOutcome, problem: Problem) -> bool:
    """Return whether a case shares no size of at least 8 with the problem's own inputs.

    The problem's own configuration never counts as a case of another size.
    """
    shapes = zip(outcome.case.input_shapes, problem.input_shapes, strict=True)
    sizes = [pair for both in shapes for pair in zip(*both, strict=False)]
    is_other = all(size != own for size, own in sizes if own >= LEAST_SIZE)
    return is_other and outcome.case.label not in OWN


def with_others_excused(outcomes: Sequence[CaseOutcome], problem: Problem) -> list[CaseOutcome]:
    """Return the outcomes; cases that may fail because of their size become `declined`.

    Cases that were not run become `declined`, too. The own configuration keeps its outcome.
    """
    return [_excused(each, problem) if _is_excusable(each) else each for each in outcomes]


def _is_excusable(outcome: CaseOutcome) -> bool:
    # Blocks that the text counts take as long at any size, so the case may be beyond the budget.
    may_be_excused = _may_be_of_size(outcome.report) or outcome.report.verdict == "not run"
    return outcome.case.label not in OWN and may_be_excused


def _excused(outcome: CaseOutcome, problem: Problem) -> CaseOutcome:
    message = f"written for {size_of(problem)}: {outcome.report.message}"
    return _instead(outcome, "declined", message, outcome.report.detail)


def note_of_excused(outcomes: Sequence[CaseOutcome], problem: Problem) -> str:
    """Return a note on the cases that `with_others_excused` declines, or "" if there are none."""
    count = sum(map(_is_excusable, outcomes))
    what = "1 case of another size is" if count == 1 else f"{count} cases of other sizes are"
    return (
        f"written for {size_of(problem)}: {what} not right or not run, and not counted"
        if count
        else ""
    )
