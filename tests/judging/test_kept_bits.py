"""Operands of fewer bits than float32's are found by their errors; honest sums are not accused."""

from __future__ import annotations

from collections.abc import Callable

import honest_errors
import pytest
import torch
from torch import Generator, Tensor

from harness.judging.kept_bits import How, Rounding, class_of, describe, deviations, roundings

Operands = tuple[Tensor, Tensor]
ROUNDED: dict[How, Callable[[Tensor, int], Tensor]] = {
    "nearest": honest_errors.nearest,
    "zero": honest_errors.cut,
}
# Enough for every number of bits. The effect of the last bits is small beside the errors of sums.
TERMS, CHANNELS = 120, 96


def drawn(terms: int = TERMS, *, positive: bool = True, seed: int = 0) -> Operands:
    """Return random weights and inputs of sums."""
    generator = Generator().manual_seed(seed)
    return honest_errors.draw(terms, generator, positive=positive, channels=CHANNELS)


def found(given: Operands, used: Operands) -> dict[str, Rounding]:
    """Return the roundings that are found if a kernel computes with `used` instead of `given`.

    The keys are the names of the operands.
    """
    w, x = used
    exact = given[0].double().T @ given[1].double()
    error = honest_errors.in_turn(w, x).double() - exact
    return {each.operand: each for each in roundings(honest_errors.factors(*given), error[None])}


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("how", ROUNDED)
@pytest.mark.parametrize("bits", range(8, 21))
def test_rounded_weights_are_named(bits: int, how: How, positive: bool) -> None:
    """Weights of 8 to 20 bits are found, whether rounded to nearest or towards zero.

    No rounding of the input is found.
    """
    w, x = drawn(positive=positive)
    told = found((w, x), (ROUNDED[how](w, bits), x))
    assert set(told) == {"weight"}
    assert (told["weight"].bits, told["weight"].how) == (bits, how)


@pytest.mark.parametrize("how", ROUNDED)
@pytest.mark.parametrize("bits", [8, 11, 13, 16, 20])
def test_rounded_inputs_are_named(bits: int, how: How) -> None:
    """Rounded inputs are found, and the weights are not reported as rounded."""
    w, x = drawn()
    told = found((w, x), (w, ROUNDED[how](x, bits)))
    assert set(told) == {"input"}
    assert (told["input"].bits, told["input"].how) == (bits, how)


def test_both_operands_are_named() -> None:
    """Two operands rounded to the same number of bits are both found."""
    w, x = drawn(positive=False)
    told = found((w, x), (honest_errors.nearest(w, 17), honest_errors.nearest(x, 17)))
    assert {name: each.bits for name, each in told.items()} == {"weight": 17, "input": 17}


@pytest.mark.parametrize("how", ROUNDED)
@pytest.mark.parametrize("bits", [21, 22, 23])
def test_as_many_bits_as_two_parts_have_are_float32(bits: int, how: How) -> None:
    """Operands of 21 or more bits count as float32.

    The fp32 class allows operands split into two TF32 parts, which lose the last bits.
    """
    w, x = drawn()
    rounded = ROUNDED[how]
    assert not found((w, x), (rounded(w, bits), rounded(x, bits)))


@pytest.mark.parametrize("way", honest_errors.WAYS)
def test_honest_sums_are_not_accused(way: str) -> None:
    """No rounding is found in sums of full operands: in any order, in parts, truncated or split."""
    for seed, terms in enumerate((1, 3, 40, 400)):
        for positive in (True, False):
            w, x = drawn(terms, positive=positive, seed=seed)
            error = honest_errors.error_of(honest_errors.WAYS[way], w, x)
            assert not roundings(honest_errors.factors(w, x), error), (terms, positive)


def test_thousands_of_honest_errors_agree_by_chance_alone() -> None:
    """The statistic T of errors of unrounded operands is distributed like sums of random signs.

    Over 2,000 draws, T has a variance of about 1, and no outliers.
    """
    generator = Generator().manual_seed(7)
    every = []
    for number in range(2000):
        terms = 2 + number % 37
        w, x = honest_errors.draw(terms, generator, positive=bool(number % 2))
        error = honest_errors.error_of(honest_errors.by_torch, w, x)
        every += [deviations(f.values, f.adjoint(error)) for f in honest_errors.factors(w, x)]
    values = torch.stack(every)
    assert 0.9 < float(values.square().mean()) < 1.1
    # One of 104,000 normal numbers exceeds 6 with a probability of 1e-4.
    assert 3.5 < float(values.abs().max()) < 6.0


def test_share_of_a_rounding_is_no_rounding() -> None:
    """A quarter of the error that a rounding of weights makes does not count as that rounding.

    This holds even if the statistic T is beyond its threshold.
    """
    w, x = drawn(positive=False)
    cut = honest_errors.nearest(w, 16)
    assert "weight" in found((w, x), (cut, x))
    both = honest_errors.factors(w, x)
    # A quarter of the error that rounding adds, and nothing else.
    error = 0.25 * ((cut.double() - w.double()).T @ x.double())[None]
    assert float(deviations(w[:, :, None], both[0].adjoint(error)).max()) > 8.5
    assert not roundings(both, error)


def test_share_of_a_coarser_rounding_hides_no_finer_one() -> None:
    """A small share of an 8-bit rounding does not hide a rounding to 18 bits.

    The 8-bit rounding has the larger statistic T, but too small a share of the error to count.
    """
    w, x = drawn(positive=False)
    used = honest_errors.nearest(w, 18).double()
    used += 0.002 * (honest_errors.nearest(w, 8) - w).double()
    both = honest_errors.factors(w, x)
    error = ((used - w.double()).T @ x.double())[None]
    agreement = deviations(both[0].values, both[0].adjoint(error))
    assert int(agreement.argmax()) % 13 < 5
    (told,) = roundings(both, error)
    assert (told.operand, told.bits, told.how) == ("weight", 18, "nearest")


def test_few_operands_or_no_error_accuse_nobody() -> None:
    """No rounding is found in fewer than 73 numbers, or in an output without errors.

    No sum of 72 random signs exceeds 8.5 standard deviations.
    """
    w, x = drawn()
    assert not roundings(honest_errors.factors(w, x), torch.zeros(1, CHANNELS, x.shape[1]).double())
    w, x = w[:8, :9], x[:8, :9]
    assert not found((w, x), (honest_errors.nearest(w, 8), honest_errors.nearest(x, 8)))


@pytest.mark.parametrize(
    ("bits", "precision"), [(20, "tf32"), (11, "tf32"), (10, "bf16"), (8, "bf16")]
)
def test_class_has_no_more_bits_than_the_operands(bits: int, precision: str) -> None:
    """The operand with the fewest bits gives the class: tf32 for at least 11 bits, else bf16."""
    assert (
        class_of([Rounding("input", 20, "zero", 9.0), Rounding("weight", bits, "zero", 9.0)])
        == precision
    )


def test_each_operand_is_described_once() -> None:
    """Each rounded operand has one note, even if several roundings of it were found.

    The note describes the rounding whose statistic T is largest in standard deviations.
    """
    calls = [Rounding("weight", 19, "zero", 9.0), Rounding("weight", 18, "nearest", 31.0)]
    assert [*describe(calls)] == [
        "its weight is rounded to 18 bits (to nearest): the errors are those of this rounding, "
        "at 31 standard deviations"
    ]
    assert [*describe([])] == []
