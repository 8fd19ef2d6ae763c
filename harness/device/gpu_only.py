"""CPU versions of operators that torch implements for GPUs alone.

In the device process, a tensor of the simulated device is a CPU tensor. torch's own CPU kernels run
on it, and the functions here run where torch has no CPU kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.library import Library


@functools.cache
def implement() -> Library:
    """Register `OPERATORS` as torch's CPU kernels; return the library, which the caller must keep.

    torch removes the operators when the library object is deleted.
    """
    # torch's signatures have no types here.
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
    """Compute a convolution with one group per channel.

    torch has an operator of its own for this convolution, and uses it on a GPU without cuDNN.
    """
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
    """Return the states after one step, by the formula of `torch.nn.LSTMCell`.

    `of_input` and `of_hidden`, the products with the weights, have the shape (batch, 4 * hidden).
    The results are the hidden state, the cell state, and the gates. Only gradients need the gates,
    and the device computes no gradients.
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
    """Return the hidden state after one step, by the formula of `torch.nn.GRUCell`.

    `of_input` and `of_hidden`, the products with the weights, have the shape (batch, 3 * hidden).
    Only gradients need the second result, and the device computes no gradients.
    """
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
"""The CPU versions, by the operator's name without namespace."""
