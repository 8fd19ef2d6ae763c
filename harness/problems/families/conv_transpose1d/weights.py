"""Weights of a transposed convolution for exact sums, and for sums of one product."""

import torch
from torch import Generator, Tensor, nn

from harness.problems.configuration import Configuration
from harness.problems.draws import (
    LARGEST_EXACT,
    WIDEST_EXACT,
    as_initialised,
    exact,
    largest_exact,
    moved,
)
from harness.problems.families.conv_transpose1d.sizes import Convolution

_MOST_EXACT_TERMS = 4095
_ZERO_SHARE = 0.1


def largest_exact_input(sizes: Convolution) -> int:
    """Return the largest odd input such that float32 computes sums with `exact_weights` exactly."""
    if _has_exact_products(sizes):
        return WIDEST_EXACT
    return largest_exact(min(sizes.most_terms, _MOST_EXACT_TERMS))


def exact_weights(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Draw weights from {-1, 0, 1} and a bias, so that float32 represents every sum exactly.

    The bias has 12 bits; if each sum has one product, the bias has 22 bits, as the inputs do.
    """
    sizes = Convolution.of(configuration)
    has_products = _has_exact_products(sizes)
    highest = WIDEST_EXACT if has_products else LARGEST_EXACT
    return {
        name: exact(tuple(value.shape), generator, highest)
        if not name.endswith("weight")
        else _lone(_signs(value, generator), sizes, generator)
        if has_products
        else _sparse(value, sizes.groups, generator)
        for name, value in as_initialised(model, configuration, generator).items()
    }


def _has_exact_products(sizes: Convolution) -> bool:
    """Return whether each sum in the run `exact` has one product, whose input has 22 bits.

    Otherwise, a sum has many products, of inputs with fewer bits. An odd input length gives one
    product for each sum, an even length many products. To have both kinds at every length would
    need a second run, which takes as long as any other run.
    """
    return sizes.length % 2 == 1


def _signs(like: Tensor, generator: Generator) -> Tensor:
    """Draw random signs, 1 and -1, in the shape of `like`."""
    return 2.0 * torch.randint(0, 2, like.shape, generator=generator) - 1.0


def lone_weights(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Draw weights of which so many are zero that each sum has at most one product.

    A sum's error bound grows in proportion to the number n of terms. The effect of lost operand
    bits grows only with the square root of n. So with few terms, lost bits are easier to see.
    Biases are not set to zero, and differ from the initial ones.
    """
    sizes = Convolution.of(configuration)
    return {
        name: _lone(value, sizes, generator) if name.endswith("weight") else value
        for name, value in moved(model, configuration, generator).items()
    }


def _lone(weight: Tensor, sizes: Convolution, generator: Generator) -> Tensor:
    """Return a copy of the weight in which all but one of the weights in each sum are zero.

    The weight that stays in a sum is chosen at random among the sum's channels and taps. Taps are
    in the same sum if their offsets (tap * dilation) differ by a multiple of the stride.

    Args:
        weight: (in_channels, out_channels / groups, kernel_size).
        sizes: The convolution's sizes.
        generator: The random generator.
    """
    channels = weight.shape[0] // sizes.groups
    by_output = weight.view(sizes.groups, channels, *weight.shape[1:])
    phases = torch.arange(sizes.kernel_size) * sizes.dilation % sizes.stride
    rank = torch.rand(by_output.shape, generator=generator)
    kept = torch.zeros_like(by_output, dtype=torch.bool)
    for phase in sorted(set(phases.tolist())):
        taps = phases == phase
        among = torch.where(taps, rank, -1.0)
        # Keep the largest rank among channels and taps, for each group and output channel.
        kept |= taps & (among == among.amax(dim=(1, 3), keepdim=True))
    return torch.where(kept, by_output, 0.0).view_as(weight)


def _sparse(like: Tensor, groups: int, generator: Generator) -> Tensor:
    """Draw weights from {-1, 0, 1}, so that each output's sum has 1 to 4095 weights other than 0.

    With inputs and bias of at most 4095 in absolute value, 4096 terms sum to less than 2**24. Every
    partial sum is then an integer that float32 represents exactly.

    Args:
        like: A weight of the wanted shape (in_channels, out_channels / groups, kernel_size).
        groups: The convolution's groups.
        generator: The random generator.
    """
    channels, outputs, taps = like.shape[0] // groups, like.shape[1], like.shape[2]
    shape = (groups, outputs, channels * taps)
    # Zeros are few: a kernel that leaves out a term is seen only where the weight is not 0.
    values = 2 * torch.randint(0, 2, shape, generator=generator) - 1
    values = torch.where(torch.rand(shape, generator=generator) < _ZERO_SHARE, 0, values)
    # Rank the terms of each output channel at random, and set those beyond the limit to zero.
    rank = torch.rand(shape, generator=generator).argsort(-1).argsort(-1)
    values = torch.where(rank >= _MOST_EXACT_TERMS, 0, values)
    values = torch.where((rank == 0) & (values == 0), 1, values)
    by_output = values.view(groups, outputs, channels, taps)
    return by_output.transpose(1, 2).reshape(like.shape).to(torch.float32)
