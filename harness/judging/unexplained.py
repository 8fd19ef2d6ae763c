"""Cases that exceed the instruction budget, though half the size takes only a small part of it.

A submission can do needless work at the sizes where a check would show that it is wrong, so that
these cases are left out.
"""

from __future__ import annotations

import math
from dataclasses import replace

from harness.judging.case_check import CaseOutcome
from harness.records.report import AMISS

# A case with one size halved takes at least an eighth of the work if the work is cubic in that
# size. Blocks that are partly idle, and a step from one tile to two, make up the rest.
_MOST_GROWTH = 16


def judge_growth(outcome: CaseOutcome, smaller: CaseOutcome, budget: int) -> CaseOutcome:
    """Return the outcome of a case beyond the budget, judged by that of half the size.

    The verdict is `unsupported` if the smaller case takes so little work that its growth has no
    explanation, and `failed` or `error` if the smaller case has that verdict.

    Args:
        outcome: The outcome of the case that exceeded the budget.
        smaller: The outcome of a case with one size halved, within the budget.
        budget: The budget of a call, in thread-instructions.
    """
    shapes = ", ".join(map(str, smaller.case.input_shapes))
    found = smaller.report
    if found.verdict in AMISS:
        message = f"with inputs of {shapes}: {found.message}"
        return replace(
            outcome, report=replace(outcome.report, verdict=found.verdict, message=message)
        )
    spent = smaller.spent_on_a_call
    if found.verdict != "passed" or _MOST_GROWTH * spent > budget:
        return outcome
    message = (
        f"takes more than {math.floor(budget / max(1, spent)):,} times the work that inputs of "
        f"{shapes} take, and so was not checked; kernels may not loop more often at some sizes"
    )
    return replace(outcome, report=replace(outcome.report, verdict="unsupported", message=message))
