"""The reference of the adversarial corpus: a small transposed 1D convolution."""

import torch
from torch import nn


class Model(nn.Module):
    """A transposed 1D convolution without padding, groups or bias."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1
    ) -> None:
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels, out_channels, kernel_size, stride=stride, bias=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (batch, in_channels, length) to (batch, out_channels, output length)."""
        y: torch.Tensor = self.conv1d_transpose(x)
        return y


batch_size = 2
in_channels = 8
out_channels = 8
kernel_size = 3
length = 62


def get_inputs() -> list[torch.Tensor]:
    """Draw the input of one forward call: x (2, 8, 62)."""
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs() -> list[int]:
    """Return the positional arguments of `Model`."""
    return [in_channels, out_channels, kernel_size]
