"""Transposed 1D convolution with a dilated kernel, in KernelBench's format."""

import torch
from torch import nn


class Model(nn.Module):
    """A transposed 1D convolution with stride, padding and dilation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (batch, in_channels, length) to (batch, out_channels, output length)."""
        y: torch.Tensor = self.conv1d_transpose(x)
        return y


batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = 5
stride = 1
padding = 0
dilation = 3
length = 131072


def get_inputs() -> list[torch.Tensor]:
    """Draw the input of one forward call."""
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs() -> list[int]:
    """Give the constructor's positional arguments."""
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
