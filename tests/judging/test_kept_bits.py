"""Operands of fewer bits than float32's are found by their errors; honest sums are not accused."""

from __future__ import annotations

from collections.abc import Callable

import honest_errors
import pytest
import torch
from torch import Generator, Tensor

from harness.judging.chance_rounding import by_chance
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


@pytest.mark.parametrize("bits", [14, 16, 18, 20])
def test_share_that_split_operands_make_is_no_rounding(bits: int) -> None:
    """Twice the share of a rounding's error that operands of 22 bits make is not that rounding.

    This holds even if the statistic T is beyond its threshold. From 18 bits down, a tenth of the
    error is that rounding, since a kernel may round a tenth of the numbers.
    """
    w, x = drawn(positive=False)
    whole = ((honest_errors.nearest(w, bits).double() - w.double()).T @ x.double())[None]
    both = honest_errors.factors(w, x)
    small = 2 * 4.0 ** (bits - 22) * whole
    assert float(deviations(w[:, :, None], both[0].adjoint(small)).max()) > 8.6
    assert not roundings(both, small)
    assert [each.bits for each in roundings(both, 0.1 * whole)] == [bits] * (bits <= 18)
    assert [each.bits for each in roundings(both, 0.6 * whole)] == [bits]


@pytest.mark.parametrize("how", ROUNDED)
@pytest.mark.parametrize("of", ["rows", "positions", "channels"])
def test_rounding_of_two_fifths_is_named(of: str, how: How) -> None:
    """Operands of which two rows, positions or channels of five have 13 bits are found."""
    w, x = drawn(400)
    narrow_w, narrow_x = ROUNDED[how](w, 13), ROUNDED[how](x, 13)
    if of == "channels":
        some = torch.arange(w.shape[1]) % 5 < 2
        told = found((w, x), (torch.where(some, narrow_w, w), x))
    else:
        some = torch.arange(x.shape[1]) % 5 < 2
        if of == "rows":
            some = torch.arange(len(x))[:, None] % 5 < 2
        told = found((w, x), (w, torch.where(some, narrow_x, x)))
    assert [(each.bits, each.how) for each in told.values()] == [(13, how)]


@pytest.mark.parametrize("bits", [8, 11, 14, 17])
def test_rounding_by_chance_is_named(bits: int) -> None:
    """Operands that are rounded stochastically are found, though their mean error is 0."""
    generator = Generator().manual_seed(bits)
    w, x = honest_errors.draw(256, generator, positive=True, channels=4 * CHANNELS)
    chance = torch.rand(x.shape, generator=generator)
    mantissa, exponent = torch.frexp(x)
    cheap = torch.ldexp((mantissa * 2.0**bits + chance).floor(), exponent - bits)
    assert abs(float((cheap - x).double().mean())) < 2.0 ** (-bits - 6)
    told = found((w, x), (w, cheap))
    assert [(each.bits, each.how) for each in told.values()] == [(bits, "chance")]
    assert set(told) == {"input"}


def test_squares_of_honest_errors_do_not_depend_on_lost_bits() -> None:
    """For unrounded operands, the T of squares is distributed like a sum of random q.

    Over 200 draws, it has a variance of about 165 / 180, and no outliers.
    """
    generator = Generator().manual_seed(8)
    every = []
    for number in range(200):
        w, x = honest_errors.draw(200, generator, positive=bool(number % 2))
        error = honest_errors.error_of(honest_errors.by_torch, w, x)
        every += [
            by_chance(each.values, each.adjoint(error)).deviations
            for each in honest_errors.factors(w, x)
        ]
    values = torch.cat(every)
    values = values[values != 0]
    assert len(values) > 1500
    assert 0.8 < float(values.square().mean()) < 1.05
    assert float(values.abs().max()) < 5.5


def test_small_numbers_do_not_hide_large_ones_that_are_rounded_by_chance() -> None:
    """Most numbers may be so small that their rounding has no visible effect.

    The slope is the variance of a rounding by chance of the large numbers.
    """
    generator = Generator().manual_seed(9)
    bits, large, small = 12, 3000, 30000
    values = 0.5 + 0.5 * torch.rand(large + small, generator=generator)
    values[large:] /= 8
    noise = torch.randn(small, generator=generator).double() * 2.0 ** (-bits - 1)
    steps = values[:large].double() * 2.0**bits
    up = (steps + torch.rand(large, generator=generator).double()).floor()
    found = by_chance(values, torch.cat(((up - steps) * 2.0**-bits, noise)))
    place = bits - 8
    assert int(found.deviations.argmax()) == place
    assert float(found.deviations[place]) > 10.0
    assert float(found.slopes[place]) == pytest.approx(4.0**-bits, rel=0.1)


@pytest.mark.parametrize("values", [torch.zeros(2000), torch.logspace(-30, 30, 2000)])
def test_numbers_in_few_or_no_binades_accuse_nobody(values: Tensor) -> None:
    """Zeros, and numbers that are spread over 200 binades, have no rounding by chance."""
    found = by_chance(values, torch.randn(2000, generator=Generator().manual_seed(1)).double())
    assert float(found.deviations.abs().max()) < 5.0


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
    """No rounding is found in fewer than 74 numbers, or in an output without errors.

    No sum of 73 random signs exceeds 8.6 standard deviations.
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
