"""Results of fewer bits than float32's are found by their last bits; honest results are not."""

from __future__ import annotations

from collections.abc import Callable

import honest_errors
import pytest
import torch
from torch import Generator, Tensor

from harness.judging.result_bits import NarrowResults, narrow_results

ROWS, COLUMNS = 40, 500


def drawn() -> Tensor:
    """Return normal numbers, float32."""
    return torch.randn(ROWS, COLUMNS, generator=Generator().manual_seed(3))


def softmax(x: Tensor) -> Tensor:
    """Return a softmax over rows, in the type of its argument."""
    shares = torch.exp(x - x.amax(1, keepdim=True))
    return shares / shares.sum(1, keepdim=True)


def found(actual: Tensor, value: Tensor, in_float32: Tensor | None = None) -> NarrowResults | None:
    """Return what is found in an output; by default, the reference rounds once, at the end."""
    single = value.float() if in_float32 is None else in_float32
    return narrow_results(actual, value, lambda: single)


@pytest.mark.parametrize("rounded", [honest_errors.nearest, honest_errors.cut])
@pytest.mark.parametrize("bits", [8, 11, 13, 16, 20])
def test_rounded_results_are_told(bits: int, rounded: Callable[[Tensor, int], Tensor]) -> None:
    """Results of 8 to 20 bits are found, whether rounded to nearest or towards zero."""
    x = drawn()
    told = found(rounded(softmax(x), bits), softmax(x.double()))
    assert told == NarrowResults(bits, 1.0)


def test_part_of_the_results_is_told() -> None:
    """Results are found if three columns of four are rounded."""
    x = drawn()
    right = softmax(x)
    narrow = torch.where(torch.arange(COLUMNS) % 4 < 3, honest_errors.nearest(right, 12), right)
    told = found(narrow, softmax(x.double()))
    assert told is not None
    assert told.bits == 12
    assert 0.75 < told.share < 0.95


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": softmax,
    "elu": lambda x: torch.where(x > 0, x, torch.exp(x) - 1),
    "tanh": lambda x: 1 - 2 / (1 + torch.exp(2 * x)),
    "softplus": lambda x: torch.log(1 + torch.exp(x)),
    "centred": lambda x: x - x.mean(1, keepdim=True),
    "far away": lambda x: (x + 1000) - 1000,
    "logarithm of shares": lambda x: x - x.logsumexp(1, keepdim=True),
    "prefixes": lambda x: x.cumsum(1),
    "prefixes from the end": lambda x: x.sum(1, keepdim=True) - x.cumsum(1),
    "halved": lambda x: 0.5 * x,
    "relu6": lambda x: x.clamp(0, 6),
    "steps": lambda x: (x * 127).round() / 127,
    "largest": lambda x: x.amax(1),
    "mean": lambda x: x.mean(1),
}
DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "normal": lambda x: x,
    "small": lambda x: 1e-3 * x,
    "far from 0": lambda x: x + 10,
    "of 8 bits": lambda x: x.bfloat16().float(),
    "of 11 bits": lambda x: x.half().float(),
    "integers": lambda x: (8 * x).round(),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_honest_results_are_not_accused(formula: str, draw: str) -> None:
    """No rounding is found in float32 results of formulas, some of which cancel or are exact."""
    x, compute = DRAWS[draw](drawn()), FORMULAS[formula]
    assert found(compute(x), compute(x.double())) is None


def test_rounding_of_the_formula_itself_is_not_told() -> None:
    """Results whose last bits the reference's formula cancels are not found.

    In 1.001 x - x, ten bits of each product cancel, however large x is.
    """
    x = drawn()
    value, single = 1.001 * x.double() - x.double(), 1.001 * x - x
    assert found(single, value, in_float32=single) is None
    assert found(single, value) is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_results_of_another_type_are_not_looked_at(dtype: torch.dtype) -> None:
    """Only float32 outputs are searched."""
    ones = torch.full((ROWS, COLUMNS), 3).to(dtype)
    assert found(ones, ones.double()) is None
