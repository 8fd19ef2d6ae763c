"""A convolution of a circular signal, which starts again at its end."""

import torch
from torch import Tensor, nn

batch_size = 16
in_channels = 24
out_channels = 32
length = 512
kernel_size = 5


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(
            in_channels, out_channels, kernel_size, padding="same", padding_mode="circular"
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.conv(x))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
