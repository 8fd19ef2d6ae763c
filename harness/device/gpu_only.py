"""Operators that torch has for a GPU alone, for tensors of the simulated one: they are a CPU's."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.library import Library


@functools.cache
def implement() -> Library:
    """Give this process's CPU what it needs; the library that has it, which must stay."""
    # Its signatures have no types.
    library = Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name in ("_conv_depthwise2d", "conv_depthwise3d"):
        library.impl(name, _depthwise, "CPU")  # type: ignore[no-untyped-call]
    return library


def _depthwise(
    x: Tensor,
    weight: Tensor,
    _: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """A convolution of which each group is a channel; torch chooses it where cuDNN is off."""
    return torch.convolution(
        x, weight, bias, stride, padding, dilation, False, [0] * len(stride), x.shape[1]
    )
