"""Comparison of a submission's output with the oracle: a precision class, or a mismatch."""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import torch
from torch import Tensor

from harness.judging.oracle import CLASSES
from harness.problems.bounds import Arithmetic, Expected
from harness.records.comparison import PRECISIONS, Comparison, Mismatch, Precision

POISON = 0x7FB1DEAD
"""The bits of the signalling NaN with which the simulator fills fresh device memory."""

# No input is larger. A kernel may return such a number in place of an infinity, see `_unsound`.
_STANDS_FOR_INFINITY = 1e30
_LARGEST_HALF = torch.finfo(torch.float16).max
# A multiple of the largest error that rounding made in a few trials. Right results in float16 and
# bfloat16 stay below that error itself (docs/figures.md).
_FAR_BEYOND_TRIALS = 4.0


def compare(
    actual: Tensor,
    expected: Expected,
    *,
    exact: bool = False,
    is_beyond_half: bool = False,
    with_limits: bool = False,
    in_float32: Callable[[], Tensor] | None = None,
) -> Comparison:
    """Compare one output of a submission with the oracle (the reference in float64).

    Args:
        actual: The submission's output, on any device.
        expected: The oracle's output, with error bounds.
        exact: True if the run's numbers are exact in float32 (`Run.is_exact`). The fp32 class then
            allows no error at all.
        is_beyond_half: True if float16 overflows in the run (`Run.is_beyond_half`). An output that
            is not finite, or is float16's largest number, is then of class fp16 at best.
        with_limits: True to fill `Comparison.limits` and `Comparison.telling`.
        in_float32: Function that returns the output of the reference in float32. Where that output
            is not finite, an element of `actual` that is not finite is accepted.

    Returns:
        The precision class and the worst error, or what is wrong.
    """
    kind = _wrong_kind(actual, expected)
    if kind is not None:
        return Comparison(None, None, Mismatch(kind))
    actual = actual.to(expected.value.device)
    at_best: Precision = "fp32"
    is_half = expected.dtype is torch.float16
    if is_half:
        # The right value replaces an overflown element below, and float16 may not hold it.
        actual = actual.float()
    if is_half or is_beyond_half:
        overflown = ~actual.isfinite() & ~_poisoned(actual)
        if is_beyond_half:
            overflown |= _are_saturated(actual, expected.value)
        else:
            overflown &= actual == expected.value.half()
        actual = torch.where(overflown, expected.value.to(actual.dtype), actual)
        at_best = "fp16" if bool(overflown.any()) else at_best
    # Only the last bound is kept. Each bound of a native output takes much of a GPU's memory.
    bound = lru_cache(maxsize=1)(expected.bound)
    unsound = _unsound(actual, expected.value)
    if unsound.any():
        # The bound is infinite if a right kernel may overflow, or divide by a number that rounding
        # makes 0.
        unknown = bound(CLASSES[0]).isinf() & ~_poisoned(actual)
        actual = torch.where(unsound & unknown, expected.value.to(actual.dtype), actual)
        unsound = unsound & ~unknown
    if in_float32 is not None and bool((unsound & ~actual.isfinite()).any()):
        # A sum of many layers can overflow in float32 and not in the oracle's float64.
        overflown = ~in_float32().isfinite() & ~actual.isfinite() & ~_poisoned(actual)
        if bool((unsound & overflown).any()):
            # The oracle's value may itself be beyond float32, so the comparison is in float64.
            actual = torch.where(unsound & overflown, expected.value.double(), actual.double())
            unsound = unsound & ~overflown
    if unsound.any():
        message = _describe_unsound(actual, expected.value, unsound)
        # Finite elements may be wrong too, and one of them may be the first wrong element.
        off = (actual.double() - expected.value.double()).abs() > bound(CLASSES[-1])
        every = unsound | (off & actual.isfinite() & expected.value.isfinite())
        others = int(every.sum()) - int(unsound.sum())
        if others:
            message += f"; {others} {'others are' if others > 1 else 'other is'} wrong"
        return Comparison(None, None, _mismatch(message, every, actual, expected.value))
    # If the oracle is not finite, `_unsound` has already found that the output agrees with it.
    error = (actual.double() - expected.value.double()).abs()
    error = torch.where(expected.value.isfinite(), error, 0.0)
    share = _share_of_bound(error, bound(CLASSES[0]))
    worst = float(share.max()) if share.numel() else 0.0
    limits, telling = _of_classes(bound, expected.value) if with_limits else ({}, None)
    for each in CLASSES:
        # The first class whose bound holds in every element is the tightest. A bound that grew as
        # large as the output accepts any output, so there the error is compared with trials of
        # rounding.
        bit_equal = not exact or each.name != "fp32" or not error.any()
        if bit_equal and bool((error <= bound(each)).all()):
            # Trials do not overflow. They say nothing about a run in which float16 does.
            is_told = is_beyond_half or _is_informative(bound(each), expected.value)
            wrong = None if is_told else _far_beyond_trials(error, expected)
            why = f"by more than {_FAR_BEYOND_TRIALS:.0f} times what rounding makes in trials"
            precision = loosest([at_best, each.name])
            break
    else:
        wrong, why = error > bound(CLASSES[-1]), "by more than rounding explains"
        precision = None
    if wrong is None:
        return Comparison(precision, worst, None, limits=limits, telling=telling)
    message = f"{_share(wrong)} differ from the reference {why}"
    mismatch = _mismatch(message, wrong, actual, expected.value)
    return Comparison(None, worst, mismatch, limits=limits)


def _is_informative(allowed: Tensor, value: Tensor) -> bool:
    """Return whether a bound rejects an output of zeros at half or more of the nonzero elements.

    A bound that does not reject zeros accepts almost any output, so its precision class means
    nothing.
    """
    wrong = int((allowed < value.double().abs()).count_nonzero())
    return 2 * wrong >= int(value.count_nonzero()) > 0


def allowed_error(expected: Expected, arithmetic: Arithmetic) -> Tensor:
    """Return the allowed error of each element: the bound, or a smaller limit from trials.

    A trial computes the reference with random rounding errors (`Expected.tried`). The limit from
    trials applies if the bound would accept almost any output (`_is_informative`).

    Args:
        expected: The output of the oracle (the reference in float64), with error bounds.
        arithmetic: The arithmetic of the bound.

    Returns:
        Absolute errors, float64, of the output's shape.
    """
    value = expected.value
    bound = expected.bound(arithmetic).expand(value.shape)
    if _is_informative(bound, value) or expected.tried is None:
        return bound
    return bound.fmin(_FAR_BEYOND_TRIALS * expected.tried)


def _far_beyond_trials(error: Tensor, expected: Expected) -> Tensor | None:
    """Return a mask of the elements whose error far exceeds the errors of trials, or None.

    A trial computes the reference with random rounding errors. The result is None without trials,
    or if at most half of the nonzero elements have such an error.
    """
    value = expected.value
    if expected.tried is None:
        return None
    far = (error > _FAR_BEYOND_TRIALS * expected.tried) & (value != 0)
    return far if 2 * int(far.count_nonzero()) > int(value.count_nonzero()) else None


def _share_of_bound(error: Tensor, bound: Tensor) -> Tensor:
    """Return each error divided by its bound; infinite where a nonzero error has a bound of 0."""
    return torch.where(error > 0, error / bound, 0.0)


def _of_classes(
    bound: Callable[[Arithmetic], Tensor], value: Tensor
) -> tuple[dict[Precision, float], Precision | None]:
    """Return the other classes' bounds relative to fp32's, and the loosest informative class.

    A relative bound is a class's bound divided by the fp32 bound, at the element with the largest
    fp32 bound. A class is informative if its bound does not accept almost any output
    (`_is_informative`). The second result is None if no class is informative.
    """
    if not value.numel():
        return {}, None
    at = 0
    limits: list[float] = []
    telling: Precision | None = None
    for each in CLASSES:
        allowed = bound(each).expand(value.shape)
        at = at if limits else int(allowed.argmax())
        limits.append(float(allowed.flatten()[at]))
        telling = each.name if _is_informative(allowed, value) else telling
    least, *others = limits
    named = zip(CLASSES[1:], others, strict=True)
    return {each.name: limit / least for each, limit in named} if least > 0 else {}, telling


def classify(comparisons: Iterable[Comparison]) -> Precision | None:
    """Return the tightest class that holds in every comparison; None if there is none.

    There is none if a comparison has no class, or if there is no comparison.
    """
    classes = [comparison.precision for comparison in comparisons]
    return None if None in classes else loosest(classes)


def loosest(classes: Iterable[Precision | None]) -> Precision | None:
    """Return the loosest of the given precision classes, ignoring None; None if none is left."""
    return max(filter(None, classes), key=PRECISIONS.index, default=None)


def _wrong_kind(actual: Tensor, expected: Expected) -> str | None:
    """Return why an output's shape or dtype is wrong, or None."""
    if actual.shape != expected.value.shape:
        return f"the output's shape is {tuple(actual.shape)}, not {tuple(expected.value.shape)}"
    if actual.dtype != expected.dtype:
        return f"the output's dtype is {actual.dtype}, not {expected.dtype}"
    return None


def _unsound(actual: Tensor, value: Tensor) -> Tensor:
    """Return a mask of wrong elements, among elements where output or reference is not finite.

    An element is wrong if only the output or only the reference is finite. It is also wrong if
    neither is finite and the two values differ, such as NaN and inf. If the reference is an
    infinity, a finite output beyond 1e30 in absolute value, of the same sign, is accepted. An
    example is the maximum of no elements: the reference gives -inf, and a kernel gives the number
    that it starts from.
    """
    disagree = actual.isfinite() != value.isfinite()
    other = ~value.isfinite() & (actual.double().nan_to_num(0.0) != value.nan_to_num(0.0))
    stands_for_it = value.isinf() & (actual * value.sign() >= _STANDS_FOR_INFINITY)
    return (disagree | other) & ~stands_for_it


def _describe_unsound(actual: Tensor, value: Tensor, unsound: Tensor) -> str:
    """Say why the marked elements are wrong: unwritten, not finite, or not the reference's NaN."""
    unwritten = unsound & _poisoned(actual)
    if unwritten.any():
        first = _first(unwritten)
        return (
            f"{_share(unwritten)} hold the values of fresh memory, the first at {first}: "
            "never written, or copied from unwritten memory"
        )
    if bool((unsound & ~value.isfinite()).any()):
        return f"{_share(unsound)} are not the infinity or NaN that the reference gives"
    return f"{_share(unsound)} are not finite, though the reference is"


def _are_saturated(actual: Tensor, value: Tensor) -> Tensor:
    """Return a mask of the elements that are float16's largest number in place of a larger one."""
    return (actual.abs() == _LARGEST_HALF) & (actual * value > 0) & (value.abs() > _LARGEST_HALF)


def _poisoned(actual: Tensor) -> Tensor:
    """Return a mask of the elements that have the bits of fresh simulated memory (`POISON`)."""
    if actual.dtype != torch.float32:
        return torch.zeros_like(actual, dtype=torch.bool)
    return actual.view(torch.int32) == POISON


def _mismatch(message: str, wrong: Tensor, actual: Tensor, value: Tensor) -> Mismatch:
    index = _first(wrong)
    return Mismatch(
        message=message,
        index=index,
        expected=_plain(float(value[index])),
        actual=_plain(float(actual[index])),
        count=int(wrong.sum()),
        total=wrong.numel(),
    )


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def _first(wrong: Tensor) -> tuple[int, ...]:
    place = int(wrong.flatten().to(torch.uint8).argmax())
    index = torch.unravel_index(torch.tensor(place), wrong.shape)
    return tuple(int(i) for i in index)


def _share(wrong: Tensor) -> str:
    count, total = int(wrong.sum()), wrong.numel()
    share = f"{count / total:.2%}" if count / total >= 1e-4 else "under 0.01%"
    return f"{count} of {total} elements ({share})"
