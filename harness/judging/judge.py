"""Judgement of one output against the oracle, in slices of the batch if the output is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from harness.judging.compare import classify, compare
from harness.judging.kept_bits import Rounding, class_of, roundings
from harness.judging.oracle import expected
from harness.judging.result_bits import NarrowResults, narrow_results
from harness.problems.bounds import Expected
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import CaseValues
from harness.records.comparison import Comparison, Mismatch

# The oracle keeps about four float64 tensors of the output's size at a time.
_MAX_ELEMENTS = 1 << 25


def judge(
    problem: Problem,
    case: Case,
    run: Run,
    values: CaseValues,
    actual: Tensor,
    device: torch.device,
    *,
    with_limits: bool = False,
) -> Comparison:
    """Compare the output of a run with the oracle.

    Args:
        problem: The reference.
        case: The case.
        run: The run (distribution of inputs, set of weights) that gave the output.
        values: The run's weights and inputs, on the CPU.
        actual: The submission's output, on the CPU.
        device: The device on which the oracle computes.
        with_limits: As in `compare`. An output in slices has the limits of its first slice.

    Returns:
        The precision class and the worst error, or what is wrong.
    """
    weights = {name: weight.to(device) for name, weight in values.weights.items()}
    if not _is_sliced(problem, values, actual):
        inputs = [x.to(device) for x in values.inputs]
        right = expected(problem, case, weights, inputs)
        own = partial(_in_float32, problem, case, weights, inputs)
        return _compared(actual, right, run, own, with_limits=with_limits)

    def compare_rows(start: int, end: int) -> Comparison:
        rows = [x[start:end].to(device) for x in values.inputs]
        right = expected(problem, case, weights, rows)
        own = partial(_in_float32, problem, case, weights, rows)
        return _compared(actual[start:end], right, run, own, with_limits=with_limits and not start)

    batch = values.inputs[0].shape[0]
    rows = max(1, batch * _MAX_ELEMENTS // actual.numel())
    starts = range(0, batch, rows)
    return _merge([(start, compare_rows(start, start + rows)) for start in starts], actual)


def judge_with_bits(
    problem: Problem,
    case: Case,
    run: Run,
    values: CaseValues,
    actual: Tensor,
    device: torch.device,
    *,
    with_limits: bool = False,
) -> tuple[Comparison, tuple[Rounding | NarrowResults, ...]]:
    """Compare as `judge` does, and find what the submission rounded to fewer bits.

    The search for rounded operands looks at the output's errors, and the search for rounded results
    at the output's last bits. The comparison and the searches share one output of the oracle. The
    searches are left out if the output is not of the fp32 class, or has more than 2^25 elements.

    Args:
        problem: The reference.
        case: The case.
        run: A plain run of the case (`Run.is_plain`).
        values: The run's weights and inputs, on the CPU.
        actual: The submission's output, on the CPU.
        device: The device on which the oracle computes.
        with_limits: As in `judge`.

    Returns:
        The result of `judge`, and the roundings that were found. If any were found, the class in
        the result is the class of these operands or results.
    """
    if actual.numel() > _MAX_ELEMENTS:
        return judge(problem, case, run, values, actual, device, with_limits=with_limits), ()
    weights = {name: weight.to(device) for name, weight in values.weights.items()}
    inputs = [x.to(device) for x in values.inputs]
    right = expected(problem, case, weights, inputs)
    own = partial(_in_float32, problem, case, weights, inputs)
    comparison = _compared(actual, right, run, own, with_limits=with_limits)
    if comparison.precision != "fp32":
        return comparison, ()
    narrow = narrow_results(actual.to(device), right.value, own)
    new_instance = partial(ModelInstance, problem, case)
    factors = problem.family.factors(new_instance, case, weights, inputs)
    rounded = roundings(factors, actual.to(device).double() - right.value) if factors else ()
    found: tuple[Rounding | NarrowResults, ...] = (*rounded, narrow) if narrow else rounded
    return (replace(comparison, precision=class_of(found)) if found else comparison), found


def _is_sliced(problem: Problem, values: CaseValues, actual: Tensor) -> bool:
    """Return whether the output is so large that the oracle computes it in slices of the batch."""
    rows = values.inputs[0].shape[:1] if values.inputs else torch.Size()
    can_be_sliced = problem.family.rows_are_independent and rows and actual.shape[:1] == rows
    return bool(can_be_sliced) and actual.numel() > _MAX_ELEMENTS


def _in_float32(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Tensor:
    """Return the reference's output, computed in float32."""
    return ModelInstance(problem, case)(weights, inputs, torch.float32)


def _compared(
    actual: Tensor, right: Expected, run: Run, own: Callable[[], Tensor], *, with_limits: bool
) -> Comparison:
    judged = compare(
        actual,
        right,
        exact=run.is_exact,
        is_beyond_half=run.is_beyond_half,
        with_limits=with_limits,
        in_float32=own,
    )
    return replace(judged, estimated=right.estimated)


def _merge(parts: Sequence[tuple[int, Comparison]], actual: Tensor) -> Comparison:
    """Merge comparisons of consecutive slices, each given with the number of its first row."""
    wrong = list(_mismatches(parts))
    worst = [part.worst for _, part in parts if part.worst is not None]
    if not wrong:
        precision = classify(part for _, part in parts)
        part = parts[0][1]
        worst_of_all = max(worst, default=None)
        return replace(part, precision=precision, worst=worst_of_all)
    first = wrong[0]
    if first.index is None:
        return Comparison(None, None, first)
    count = sum(mismatch.count for mismatch in wrong)
    message = f"{count} of {actual.numel()} elements are wrong; the first: {first.message}"
    total = replace(first, message=message, count=count, total=actual.numel())
    return Comparison(None, max(worst, default=None), total)


def _mismatches(parts: Sequence[tuple[int, Comparison]]) -> Iterator[Mismatch]:
    for start, part in parts:
        if part.mismatch is None:
            continue
        index = part.mismatch.index
        moved = None if index is None else (index[0] + start, *index[1:])
        yield replace(part.mismatch, index=moved)
