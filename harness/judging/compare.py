"""Compare a submission's output with the oracle: a precision class, or a mismatch."""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import torch
from torch import Tensor

from harness.judging.oracle import CLASSES
from harness.problems.bounds import Arithmetic, Expected
from harness.records.comparison import PRECISIONS, Comparison, Mismatch, Precision

POISON = 0x7FB1DEAD
"""Bits of the signalling NaN that the simulator fills fresh device memory with."""

_STANDS_FOR_INFINITY = 1e30
# Of what rounding made at most in a few trials. Right results in float16 and bfloat16 are off by
# less than that (docs/figures.md).
_FAR_BEYOND_TRIALS = 4.0


def compare(
    actual: Tensor,
    expected: Expected,
    *,
    exact: bool = False,
    is_beyond_half: bool = False,
    with_limits: bool = False,
) -> Comparison:
    """Judge one output.

    Args:
        actual: What the submission gave, on any device.
        expected: The oracle's answer.
        exact: Whether the run's numbers are exact in float32 (`Run.is_exact`): then the fp32
            class allows no error at all.
        is_beyond_half: Whether float16 overflows (`Run.is_beyond_half`): then no better class
            allows an output that is not finite.
        with_limits: Whether to tell what the other classes allow where most is allowed, and which
            of the classes tell anything.

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
        # The right value of what has overflown is to stand in its place.
        actual = actual.float()
    if (is_half or is_beyond_half) and not bool(actual.isfinite().all()):
        overflown = ~actual.isfinite() & ~_poisoned(actual)
        if not is_beyond_half:
            overflown &= actual == expected.value.half()
        actual = torch.where(overflown, expected.value.to(actual.dtype), actual)
        at_best = "fp16" if bool(overflown.any()) else at_best
    # The last one alone: of a native output each takes much of a GPU's memory.
    bound = lru_cache(maxsize=1)(expected.bound)
    unsound = _unsound(actual, expected.value)
    if unsound.any():
        # A right kernel may overflow there, or divide by what rounding makes 0.
        unknown = bound(CLASSES[0]).isinf() & ~_poisoned(actual)
        actual = torch.where(unsound & unknown, expected.value.to(actual.dtype), actual)
        unsound = unsound & ~unknown
    if unsound.any():
        message = _describe_unsound(actual, expected.value, unsound)
        return Comparison(None, None, _mismatch(message, unsound, actual, expected.value))
    # Where the oracle is not finite, the output agrees with it already.
    error = (actual.double() - expected.value.double()).abs()
    error = torch.where(expected.value.isfinite(), error, 0.0)
    share = _share_of_bound(error, bound(CLASSES[0]))
    worst = float(share.max()) if share.numel() else 0.0
    limits, telling = _of_classes(bound, expected.value) if with_limits else ({}, None)
    for each in CLASSES:
        bit_equal = not exact or each.name != "fp32" or not error.any()
        if bit_equal and bool((error <= bound(each)).all()):
            # What may overflow, trials without overflow cannot tell.
            is_told = is_beyond_half or _tells(bound(each), expected.value)
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


def _tells(allowed: Tensor, value: Tensor) -> bool:
    """Whether zeros would be wrong in half of the elements that are none, if so much is allowed."""
    wrong = int((allowed < value.double().abs()).count_nonzero())
    return 2 * wrong >= int(value.count_nonzero()) > 0


def allowed_error(expected: Expected, arithmetic: Arithmetic) -> Tensor:
    """Give what may be off: by the bound, and where that tells nothing, by trials too.

    Args:
        expected: The oracle's answer.
        arithmetic: What the bound is for.

    Returns:
        Absolute errors, float64, of the output's shape.
    """
    value = expected.value
    bound = expected.bound(arithmetic).expand(value.shape)
    if _tells(bound, value) or expected.tried is None:
        return bound
    return bound.fmin(_FAR_BEYOND_TRIALS * expected.tried)


def _far_beyond_trials(error: Tensor, expected: Expected) -> Tensor | None:
    """Which elements are, where half of those are that are not 0; None where they are not."""
    value = expected.value
    if expected.tried is None:
        return None
    far = (error > _FAR_BEYOND_TRIALS * expected.tried) & (value != 0)
    return far if 2 * int(far.count_nonzero()) > int(value.count_nonzero()) else None


def _share_of_bound(error: Tensor, bound: Tensor) -> Tensor:
    """Errors as shares of their bounds; one where none is allowed is beyond any."""
    return torch.where(error > 0, error / bound, 0.0)


def _of_classes(
    bound: Callable[[Arithmetic], Tensor], value: Tensor
) -> tuple[dict[Precision, float], Precision | None]:
    """The other classes' bounds over the fp32 class's, where that is largest; the last that tells.

    None where none does.
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
        telling = each.name if _tells(allowed, value) else telling
    least, *others = limits
    named = zip(CLASSES[1:], others, strict=True)
    return {each.name: limit / least for each, limit in named} if least > 0 else {}, telling


def classify(comparisons: Iterable[Comparison]) -> Precision | None:
    """Give the tightest class that holds in every comparison; None if one has none, or for none."""
    classes = [comparison.precision for comparison in comparisons]
    return None if None in classes else loosest(classes)


def loosest(classes: Iterable[Precision | None]) -> Precision | None:
    """Give the loosest of some classes; None where there is none."""
    return max(filter(None, classes), key=PRECISIONS.index, default=None)


def _wrong_kind(actual: Tensor, expected: Expected) -> str | None:
    if actual.shape != expected.value.shape:
        return f"the output's shape is {tuple(actual.shape)}, not {tuple(expected.value.shape)}"
    if actual.dtype != expected.dtype:
        return f"the output's dtype is {actual.dtype}, not {expected.dtype}"
    return None


def _unsound(actual: Tensor, value: Tensor) -> Tensor:
    """Mark the elements of which only one side is finite, or that are other infinities.

    What is larger than any number that is drawn stands for an infinity: of nothing at all the
    largest is -inf, or what a kernel starts from.
    """
    disagree = actual.isfinite() != value.isfinite()
    other = ~value.isfinite() & (actual.double().nan_to_num(0.0) != value.nan_to_num(0.0))
    stands_for_it = value.isinf() & (actual * value.sign() >= _STANDS_FOR_INFINITY)
    return (disagree | other) & ~stands_for_it


def _describe_unsound(actual: Tensor, value: Tensor, unsound: Tensor) -> str:
    unwritten = unsound & _poisoned(actual)
    if unwritten.any():
        first = _first(unwritten)
        return (
            f"{_share(unwritten)} are what fresh memory holds, the first at {first}: "
            "never written, or copied from what was not"
        )
    if bool((unsound & ~value.isfinite()).any()):
        return f"{_share(unsound)} are not the infinity or NaN that the reference gives"
    return f"{_share(unsound)} are not finite, though the reference is"


def _poisoned(actual: Tensor) -> Tensor:
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
    return f"{count} of {total} elements ({count / total:.2%})"
