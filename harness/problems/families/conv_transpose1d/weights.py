"""The weights of a transposed convolution with which float32 rounds nothing."""

import torch
from torch import Generator, Tensor, nn

from harness.problems.configuration import Configuration
from harness.problems.draws import as_initialised, exact
from harness.problems.families.conv_transpose1d.sizes import Convolution

_MOST_TERMS = 4096


def exact_weights(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Draw weights from {-1, 0, 1} and a bias of 12 bits, of which float32 holds every sum."""
    groups = Convolution.of(configuration).groups
    return {
        name: _sparse(value, groups, generator)
        if name.endswith("weight")
        else exact(tuple(value.shape), generator)
        for name, value in as_initialised(model, configuration, generator).items()
    }


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
    values = torch.randint(-1, 2, shape, generator=generator)
    # Rank the terms of each output channel at random; those beyond the allowed number are zero.
    rank = torch.rand(shape, generator=generator).argsort(-1).argsort(-1)
    values = torch.where(rank >= _MOST_TERMS - 1, 0, values)
    values = torch.where((rank == 0) & (values == 0), 1, values)
    by_output = values.view(groups, outputs, channels, taps)
    return by_output.transpose(1, 2).reshape(like.shape).to(torch.float32)
