"""Cases that exceed the instruction budget, though half the size takes only a small part of it.

A submission can do needless work at the sizes where a check would show that it is wrong, so that
these cases are left out.
"""

from __future__ import annotations

from dataclasses import replace

from harness.judging.case_outcome import CaseOutcome
from harness.records.report import AMISS

# A case with one size halved takes at least an eighth of the work if the work is cubic in that
# size. Blocks that are partly idle, and a step from one tile to two, make up the rest.
MOST_GROWTH = 16
"""Twice the size takes at most this many times the work, if the sizes explain the work."""


def unexplained(outcome: CaseOutcome, smaller: CaseOutcome, budget: int) -> CaseOutcome:
    """Return the outcome of a case whose work grew more than its sizes explain.

    The verdict becomes `unsupported`, or that of the smaller case if it is `failed` or `error`.

    Args:
        outcome: The outcome of the case that exceeded the budget.
        smaller: The outcome of a case with one size halved (or halved twice), which takes a
            sixteenth of the budget at most (or a sixteenth of that).
        budget: The budget of a call, in thread-instructions.
    """
    shapes = ", ".join(map(str, smaller.case.input_shapes))
    found = smaller.report
    if found.verdict in AMISS:
        message = f"with inputs of {shapes}: {found.message}"
        return replace(
            outcome, report=replace(outcome.report, verdict=found.verdict, message=message)
        )
    if found.verdict != "passed":
        return outcome
    times = budget // max(1, smaller.spent_on_a_call)
    message = (
        f"takes more than {times:,} times the work that inputs of "
        f"{shapes} take, and so was not checked; kernels may not loop more often at some sizes"
    )
    return replace(outcome, report=replace(outcome.report, verdict="unsupported", message=message))
