"""Helper for the tests of the family of transposed convolutions."""

from __future__ import annotations

import torch

from harness.problems.families.conv_transpose1d.sizes import Convolution


def accepted_by_torch(c: Convolution) -> bool:
    """Return whether `ConvTranspose1d` accepts these sizes and gives an output of the right shape.

    The right shape is the one that `Convolution` predicts. The output must not be empty.
    """
    x = torch.zeros(c.batch, c.in_channels, c.length)
    try:
        layer = torch.nn.ConvTranspose1d(
            c.in_channels,
            c.out_channels,
            c.kernel_size,
            c.stride,
            c.padding,
            c.output_padding,
            c.groups,
            c.bias,
            c.dilation,
        )
        y = layer(x)
        return y.numel() > 0 and tuple(y.shape) == (c.batch, c.out_channels, c.output_length)
    except (RuntimeError, ValueError):
        return False
