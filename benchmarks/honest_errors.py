"""Measure how close honest kernels come to being accused of rounding their operands.

    PYTHONPATH=. python benchmarks/honest_errors.py --draws 300

Sums of products are computed in several ways, all in float32, on random operands. For each way,
`judging/kept_bits.py` computes its statistic T of the errors, and `judging/chance_rounding.py` that
of their squares. T is large if operands were rounded to fewer bits than float32 has. For each way,
the program prints the largest T and the mean of T squared, for both. The mean is 1 if errors do not
depend on the signs of the roundings, and 0.92 if their squares do not depend on the lost bits. The
harness accuses a submission only for T above 8.6.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Generator, Tensor

from harness.judging.chance_rounding import by_chance
from harness.judging.kept_bits import deviations, roundings
from harness.problems.factors import Factor
from harness.problems.families.conv_transpose1d.factors import factors_of
from harness.problems.families.conv_transpose1d.sizes import Convolution

Way = Callable[[Tensor, Tensor], Tensor]
"""A function of w (terms, channels) and x (terms, positions), float32, to the sums of products."""
Terms = Sequence[tuple[Tensor, Tensor]]

_TERMS = (1, 2, 5, 30, 200)
_CHANNELS, _POSITIONS = 24, 40
_TF32_BITS = 11


def in_turn(w: Tensor, x: Tensor) -> Tensor:
    """Sum the products over the terms one after another, without rounding the products."""
    return _added([*zip(w, x, strict=True)], _to_nearest)


def with_rounded_products(w: Tensor, x: Tensor) -> Tensor:
    """Sum the products over the terms one after another, after rounding each product."""
    total = torch.zeros(w.shape[1], x.shape[1])
    for one, other in zip(w, x, strict=True):
        total = total + one[:, None] * other
    return total


def in_eight_parts(w: Tensor, x: Tensor) -> Tensor:
    """Sum every eighth term separately, and add these eight sums, as several threads would."""
    parts = [in_turn(w[start::8], x[start::8]) for start in range(min(8, len(w)))]
    return torch.stack(parts).sum(0)


def largest_first(w: Tensor, x: Tensor) -> Tensor:
    """Sum the products over the terms in descending order of their size."""
    order = (w.abs().amax(1) * x.abs().amax(1)).argsort(descending=True)
    return in_turn(w[order], x[order])


def cut_off(w: Tensor, x: Tensor) -> Tensor:
    """Sum the products over the terms one after another, and round each sum towards zero.

    Tensor cores round in this way.
    """
    return _added([*zip(w, x, strict=True)], _to_zero)


def in_cut_parts(w: Tensor, x: Tensor) -> Tensor:
    """Sum by 3xTF32: each operand is split, by cutting off, into two parts of 11 bits."""
    return _in_parts(w, x, cut)


def in_rounded_parts(w: Tensor, x: Tensor) -> Tensor:
    """Sum by 3xTF32: each operand is split, by rounding, into two parts of 11 bits."""
    return _in_parts(w, x, nearest)


def by_torch(w: Tensor, x: Tensor) -> Tensor:
    """Sum by torch's matrix product on the CPU."""
    return w.T @ x


WAYS: Mapping[str, Way] = {
    way.__name__.replace("_", " "): way
    for way in (
        in_turn,
        with_rounded_products,
        in_eight_parts,
        largest_first,
        cut_off,
        in_cut_parts,
        in_rounded_parts,
        by_torch,
    )
}


def nearest(values: Tensor, bits: int) -> Tensor:
    """Round float32 numbers to `bits` bits of mantissa, ties to even."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.ldexp(mantissa, torch.tensor(bits)).round(), exponent - bits)


def cut(values: Tensor, bits: int) -> Tensor:
    """Round float32 numbers to `bits` bits of mantissa, towards zero."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.ldexp(mantissa, torch.tensor(bits)).trunc(), exponent - bits)


def draw(
    terms: int, generator: Generator, *, positive: bool, channels: int = _CHANNELS
) -> tuple[Tensor, Tensor]:
    """Draw w (terms, channels) as in an initialised layer, and x (terms, positions).

    Args:
        terms: Number of terms of each sum.
        generator: Source of randomness.
        positive: True to draw x from [0, 1), False to draw it from a normal distribution.
        channels: Number of channels of the output.
    """
    limit = 1 / math.sqrt(channels)
    w = torch.rand(terms, channels, generator=generator) * 2 * limit - limit
    make = torch.rand if positive else torch.randn
    return w, make(terms, _POSITIONS, generator=generator)


def factors(w: Tensor, x: Tensor) -> tuple[Factor, Factor]:
    """Return w and x as the factors of a transposed convolution with one tap."""
    sizes = Convolution(w.shape[0], w.shape[1], 1, batch=1, length=x.shape[1])
    return factors_of(sizes, w[:, :, None], x[None])


def error_of(way: Way, w: Tensor, x: Tensor) -> Tensor:
    """Return the errors of the sums that `way` computes, as float64 (1, channels, positions)."""
    return (way(w, x).double() - w.double().T @ x.double())[None]


def _added(terms: Terms, rounded: Callable[[Tensor], Tensor]) -> Tensor:
    w, x = terms[0]
    total = torch.zeros(len(w), len(x))
    # The products of float32 numbers are exact in float64, as in a fused multiply-add. The sum is
    # rounded to float64 first, whose 29 more bits hardly ever change the second rounding.
    for one, other in terms:
        total = rounded(total.double() + one.double()[:, None] * other.double())
    return total


def _in_parts(w: Tensor, x: Tensor, rounded: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Split each operand into a high and a low part, and sum three of the four products of parts.

    `rounded` rounds a number to the bits of a part. The product of the two low parts is left out.
    Small products come first, and each sum is rounded towards zero.
    """
    high_w, high_x = rounded(w, _TF32_BITS), rounded(x, _TF32_BITS)
    low_w, low_x = rounded(w - high_w, _TF32_BITS), rounded(x - high_x, _TF32_BITS)
    pairs = ((low_w, high_x), (high_w, low_x), (high_w, high_x))
    return _added([(w[i], x[i]) for i in range(len(high_w)) for w, x in pairs], _to_zero)


def _to_nearest(sums: Tensor) -> Tensor:
    return sums.float()


def _to_zero(sums: Tensor) -> Tensor:
    # Rounding to nearest may lead away from zero. Then the next number towards zero is right.
    single = sums.float()
    is_beyond = single.double().abs() > sums.abs()
    return torch.where(is_beyond, torch.nextafter(single, torch.zeros(())), single)


def _measured(way: Way, draws: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield, for each draw, every T of errors and of squares, and the number of accused operands.

    There is no T of squares for operands of too few numbers.
    """
    for _ in range(draws):
        for terms in _TERMS:
            for positive in (True, False):
                w, x = draw(terms, generator, positive=positive)
                error, both = error_of(way, w, x), factors(w, x)
                weighed = [(each.values, each.adjoint(error)) for each in both]
                found = torch.cat([deviations(*each).flatten() for each in weighed])
                squares = torch.cat([by_chance(*each).deviations for each in weighed])
                yield found, squares[squares != 0], len(roundings(both, error))


def main() -> None:
    """Print the tests, the largest T, the mean of T squared and the accusations of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300, help="of each size, for each way")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = Generator().manual_seed(options.seed)
    columns = f"{'tests':>10}{'largest T':>11}{'mean T^2':>10}"
    print(f"{'':24}{'errors':>8}{columns}{columns}{'accused':>9}")
    for name, way in WAYS.items():
        every = [*_measured(way, options.draws, generator)]
        both = (
            torch.cat([found for found, _, _ in every]),
            torch.cat([squares for _, squares, _ in every]),
        )
        told = "".join(
            f"{len(values):>10}{float(values.max()):>11.2f}{float(values.square().mean()):>10.3f}"
            for values in both
        )
        print(f"{name:24}{len(every):>8}{told}{sum(count for _, _, count in every):>9}")


if __name__ == "__main__":
    main()
