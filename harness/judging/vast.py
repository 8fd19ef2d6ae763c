"""Judgement of calls with 2^28 or more elements, of which only a few parts exist."""

from __future__ import annotations

from dataclasses import replace

import torch

from harness.judging.answered import Output, describe_unwritten
from harness.judging.compare import compare
from harness.judging.oracle import expected
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import CaseValues
from harness.problems.vast import Vast
from harness.records.comparison import Comparison
from harness.simulator.native.bindings import UNWRITTEN


def describe_missing_parts(output: Output, vast: Vast, *, is_whole: bool) -> str:
    """Describe the unwritten parts of an output that should have been written; empty for none.

    Args:
        output: The parts of the output, as rows.
        vast: The shapes of input and output, and the positions of the parts.
        is_whole: True if all blocks ran. If not, only the blocks that may write a part ran. A part
            may then be unwritten because its block did not run. Only one pattern is then reported:
            all parts within the first 2^32 numbers are written, and none beyond them.
    """
    unwritten = output.writers == UNWRITTEN
    if is_whole:
        return describe_unwritten(unwritten) if bool(unwritten.any()) else ""
    rows = len(vast.output_starts)
    is_written = (~unwritten).view(rows, -1).any(1).tolist()
    if any(vast.lie_beyond) and [not each for each in vast.lie_beyond] == is_written:
        return "nothing is written beyond the first 2^32 elements"
    return ""


def judge_parts(
    problem: Problem,
    case: Case,
    run: Run,
    values: CaseValues,
    output: Output,
    *,
    with_limits: bool = False,
) -> Comparison:
    """Compare the written elements of the parts of a vast output with the oracle.

    An unwritten element may belong to a block that did not run. It is replaced by the oracle's
    value, so that it counts as right.

    Args:
        problem: The reference; its rows are independent of each other.
        case: The case.
        run: The run (distribution of inputs, set of weights) of the values.
        values: Weights, and inputs with one row for each part.
        output: The parts of the output, as rows.
        with_limits: As in `compare`.

    Returns:
        The result of `compare`.
    """
    right = expected(problem, case, values.weights, values.inputs)
    if right.value.shape != output.value.shape:
        return compare(output.value, right, exact=run.is_exact)
    unknown = output.writers == UNWRITTEN
    known = torch.where(unknown, right.value.to(output.value.dtype), output.value)
    judged = compare(known, right, exact=run.is_exact, with_limits=with_limits)
    return replace(judged, estimated=right.estimated)
