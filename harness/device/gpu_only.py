"""Operators that torch has for a GPU alone, for tensors of the simulated one: they are a CPU's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.library import Library


@functools.cache
def implement() -> Library:
    """Give this process's CPU what it needs; the library that has it, which must stay."""
    # Its signatures have no types.
    library = Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name, function in OPERATORS.items():
        library.impl(name, function, "CPU")  # type: ignore[no-untyped-call]
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


def _lstm_cell(
    of_input: Tensor,
    of_hidden: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step, as `torch.nn.LSTMCell` says it: (batch, 4 * hidden) of the products to two states.

    The third result is for gradients, which nobody asks for here.
    """
    gates = _plus(of_input, input_bias) + _plus(of_hidden, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    following = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * following.tanh(), following, gates


def _gru_cell(
    of_input: Tensor,
    of_hidden: Tensor,
    hidden: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step, as `torch.nn.GRUCell` says it: (batch, 3 * hidden) of the products to the state."""
    gates = _plus(of_input, input_bias)
    r_x, z_x, n_x = gates.chunk(3, 1)
    r_h, z_h, n_h = _plus(of_hidden, hidden_bias).chunk(3, 1)
    z = (z_x + z_h).sigmoid()
    n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    return n + z * (hidden - n), gates


def _plus(values: Tensor, bias: Tensor | None) -> Tensor:
    return values if bias is None else values + bias


OPERATORS: Mapping[str, Callable[..., object]] = {
    "_conv_depthwise2d": _depthwise,
    "conv_depthwise3d": _depthwise,
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_gru_cell": _gru_cell,
}
"""By their names."""
