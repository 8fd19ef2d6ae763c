"""The work of a transposed convolution, and the output positions whose sums have products."""

import torch

from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.interfaces import Need


def need_of(sizes: Convolution) -> Need:
    """Return the work of one call as a `Need`; its `has_terms` has the shape (output length,)."""
    reached = torch.arange(sizes.length) * sizes.stride - sizes.padding
    has_terms = torch.zeros(sizes.output_length, dtype=torch.bool)
    for tap in range(sizes.kernel_size):
        at = reached + tap * sizes.dilation
        has_terms[at[(at >= 0) & (at < sizes.output_length)]] = True
    channels = sizes.in_channels // sizes.groups
    inputs = sizes.batch * sizes.in_channels * sizes.length
    operands = inputs + channels * sizes.out_channels * sizes.kernel_size
    numbers = operands + sizes.batch * sizes.out_channels * sizes.output_length
    return Need(sizes.products, numbers, operands, inputs, has_terms)
