"""Judge the parts of a vast output, so far as they were written."""

from __future__ import annotations

import torch

from harness.judging.answered import Output, describe_unwritten
from harness.judging.compare import compare
from harness.judging.oracle import expected
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import Values
from harness.problems.vast import Vast
from harness.records.comparison import Comparison
from harness.simulator.native.bindings import UNWRITTEN


def missing_parts(output: Output, vast: Vast, *, is_whole: bool) -> str:
    """Say what of an output's parts should have been written and was not; empty for nothing.

    Args:
        output: Its parts, as rows.
        vast: Where they are.
        is_whole: Whether all blocks have run. Else the blocks that may write a part have; if they
            write all the parts that 32 bits count, and nothing beyond, they write elsewhere there.
    """
    unwritten = output.writers == UNWRITTEN
    if is_whole:
        return describe_unwritten(unwritten) if bool(unwritten.any()) else ""
    rows = len(vast.output_starts)
    is_written = (~unwritten).view(rows, -1).any(1).tolist()
    if any(vast.lie_beyond) and [not each for each in vast.lie_beyond] == is_written:
        return "nothing is written beyond the first 2^32"
    return ""


def judge_parts(
    problem: Problem, case: Case, run: Run, values: Values, output: Output
) -> Comparison:
    """Compare what is written of an output's parts with the oracle.

    What is not may be another block's work, of which nothing is known.

    Args:
        problem: The reference; its rows are independent of each other.
        case: The case.
        run: Of which the values are.
        values: A row for each part.
        output: Its parts, as rows.

    Returns:
        As `compare`.
    """
    right = expected(problem, case, values.weights, values.inputs)
    if right.value.shape != output.value.shape:
        return compare(output.value, right, exact=run.is_exact)
    unknown = output.writers == UNWRITTEN
    known = torch.where(unknown, right.value.to(output.value.dtype), output.value)
    return compare(known, right, exact=run.is_exact)
