"""The weights of a transposed convolution with which sums are exact, or of a single product."""

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
    """The largest odd number that inputs have where weights are `exact_weights`."""
    if _has_exact_products(sizes):
        return WIDEST_EXACT
    return largest_exact(min(sizes.most_terms, _MOST_EXACT_TERMS))


def exact_weights(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Draw weights from {-1, 0, 1} and a bias, of which float32 holds every sum.

    The bias has 12 bits; where there are single products, as many as the inputs.
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
    """Whether exact runs have single products of wide inputs, and not sums of narrower ones.

    Half of the lengths have: a run more would take as long as any.
    """
    return sizes.length % 2 == 1


def _signs(like: Tensor, generator: Generator) -> Tensor:
    """Draw 1 and -1."""
    return 2.0 * torch.randint(0, 2, like.shape, generator=generator) - 1.0


def lone_weights(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Draw weights, all but so many of them zero that no sum has more than one product.

    The bound of a sum grows with its terms, and what is lost of operands grows with their root: of
    few terms a bound tells more. Biases stay, and are other than as initialised.
    """
    sizes = Convolution.of(configuration)
    return {
        name: _lone(value, sizes, generator) if name.endswith("weight") else value
        for name, value in moved(model, configuration, generator).items()
    }


def _lone(weight: Tensor, sizes: Convolution, generator: Generator) -> Tensor:
    """Keep one product of each sum: taps whose places differ by whole strides share their sums.

    Args:
        weight: (in_channels, out_channels / groups, kernel_size).
        sizes: The convolution's.
        generator: Where the choice comes from.
    """
    channels = weight.shape[0] // sizes.groups
    by_output = weight.view(sizes.groups, channels, *weight.shape[1:])
    phases = torch.arange(sizes.kernel_size) * sizes.dilation % sizes.stride
    rank = torch.rand(by_output.shape, generator=generator)
    kept = torch.zeros_like(by_output, dtype=torch.bool)
    for phase in sorted(set(phases.tolist())):
        taps = phases == phase
        among = torch.where(taps, rank, -1.0)
        # The largest among channels and taps, of each group and output channel.
        kept |= taps & (among == among.amax(dim=(1, 3), keepdim=True))
    return torch.where(kept, by_output, 0.0).view_as(weight)


def _sparse(like: Tensor, groups: int, generator: Generator) -> Tensor:
    """Draw from {-1, 0, 1}, at most 4095 of them nonzero in each output's sum, and at least one.

    With inputs and bias of at most 4095 in absolute value, 4096 terms sum to less than 2**24:
    every partial sum is an integer that float32 holds.

    Args:
        like: The weight (in_channels, out_channels / groups, kernel_size).
        groups: The convolution's.
        generator: Where the values come from.
    """
    channels, outputs, taps = like.shape[0] // groups, like.shape[1], like.shape[2]
    shape = (groups, outputs, channels * taps)
    # Few zeros: a term that is left out shows where its weight is not one.
    values = 2 * torch.randint(0, 2, shape, generator=generator) - 1
    values = torch.where(torch.rand(shape, generator=generator) < _ZERO_SHARE, 0, values)
    # Rank the terms of each output channel at random; those beyond the allowed number are zero.
    rank = torch.rand(shape, generator=generator).argsort(-1).argsort(-1)
    values = torch.where(rank >= _MOST_EXACT_TERMS, 0, values)
    values = torch.where((rank == 0) & (values == 0), 1, values)
    by_output = values.view(groups, outputs, channels, taps)
    return by_output.transpose(1, 2).reshape(like.shape).to(torch.float32)
