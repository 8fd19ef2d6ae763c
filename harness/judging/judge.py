"""Judge one output against the oracle, in slices of the batch where the whole is too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from harness.judging.compare import classify, compare
from harness.judging.kept_bits import Rounding, roundings
from harness.judging.oracle import expected
from harness.problems.bounds import Expected
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import Values
from harness.records.comparison import Comparison, Mismatch

# The oracle keeps about four float64 tensors of an output's size at a time.
_MAX_ELEMENTS = 1 << 25


def judge(
    problem: Problem,
    case: Case,
    run: Run,
    values: Values,
    actual: Tensor,
    device: torch.device,
    *,
    with_limits: bool = False,
) -> Comparison:
    """Compare a run's output with the oracle.

    Args:
        problem: The reference.
        case: The case.
        run: One of the case's runs.
        values: The run's weights and inputs, on the CPU.
        actual: What the submission gave, on the CPU.
        device: Where the oracle computes.
        with_limits: As in `compare`; of an output in slices, those of the first.

    Returns:
        The precision class and the worst error, or what is wrong.
    """
    weights = {name: weight.to(device) for name, weight in values.weights.items()}

    def compare_rows(start: int, end: int) -> Comparison:
        rows = [x[start:end].to(device) for x in values.inputs]
        right = expected(problem, case, weights, rows)
        return _compared(actual[start:end], right, run, with_limits=with_limits and not start)

    first = values.inputs[0] if values.inputs else actual
    batch = first.shape[0] if first.dim() else 1
    can_be_sliced = problem.family.rows_are_independent and actual.shape[:1] == (batch,)
    if not can_be_sliced or actual.numel() <= _MAX_ELEMENTS:
        inputs = [x.to(device) for x in values.inputs]
        right = expected(problem, case, weights, inputs)
        return _compared(actual, right, run, with_limits=with_limits)
    rows = max(1, batch * _MAX_ELEMENTS // actual.numel())
    starts = range(0, batch, rows)
    return _merge([(start, compare_rows(start, start + rows)) for start in starts], actual)


def roundings_of(
    problem: Problem, case: Case, values: Values, actual: Tensor, device: torch.device
) -> tuple[Rounding, ...]:
    """Find the operands that an output's errors tell to be rounded; of very large outputs, none.

    Args:
        problem: The reference.
        case: The case.
        values: Of a plain run, on the CPU.
        actual: What the submission gave: of the right shape, and finite.
        device: Where that is computed.
    """
    if actual.numel() > _MAX_ELEMENTS:
        return ()
    weights = {name: weight.to(device) for name, weight in values.weights.items()}
    inputs = [x.to(device) for x in values.inputs]
    factors = problem.family.factors(case, weights, inputs)
    if not factors:
        return ()
    exact = ModelInstance(problem, case)(weights, inputs)
    return roundings(factors, actual.to(device).double() - exact)


def _compared(actual: Tensor, right: Expected, run: Run, *, with_limits: bool) -> Comparison:
    judged = compare(
        actual,
        right,
        exact=run.is_exact,
        is_beyond_half=run.is_beyond_half,
        with_limits=with_limits,
    )
    return replace(judged, estimated=right.estimated)


def _merge(parts: Sequence[tuple[int, Comparison]], actual: Tensor) -> Comparison:
    """One comparison from those of consecutive rows, each with its first row."""
    wrong = list(_mismatches(parts))
    worst = [part.worst for _, part in parts if part.worst is not None]
    if not wrong:
        precision = classify(part for _, part in parts)
        part = parts[0][1]
        worst_of_all = max(worst, default=None)
        return Comparison(precision, worst_of_all, None, part.estimated, part.limits)
    first = wrong[0]
    if first.index is None:
        return Comparison(None, None, first)
    count = sum(mismatch.count for mismatch in wrong)
    message = f"{count} of {actual.numel()} elements are wrong; of the first: {first.message}"
    total = replace(first, message=message, count=count, total=actual.numel())
    return Comparison(None, max(worst, default=None), total)


def _mismatches(parts: Sequence[tuple[int, Comparison]]) -> Iterator[Mismatch]:
    for start, part in parts:
        if part.mismatch is None:
            continue
        index = part.mismatch.index
        moved = None if index is None else (index[0] + start, *index[1:])
        yield replace(part.mismatch, index=moved)
