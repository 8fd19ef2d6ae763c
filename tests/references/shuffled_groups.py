"""Two grouped convolutions with a shuffle of channels between them, and a shortcut."""

import torch
from torch import Tensor, nn

batch_size = 8
channels = 96
height = width = 40
groups = 3


class Model(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        narrow = channels // 4
        self.groups = groups
        self.first = nn.Conv2d(channels, narrow, 1, groups=groups)
        self.norm = nn.BatchNorm2d(narrow)
        self.last = nn.Conv2d(narrow, channels, 3, padding=1, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.first(x)))
        y = y.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        return torch.relu(self.last(y) + x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs() -> list[int]:
    return [channels, groups]
