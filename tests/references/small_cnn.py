"""A small network, whose layers have fixed sizes except for the number of classes."""

import torch
from torch import nn

batch_size = 16
classes = 10


class Model(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 5)
        self.second = nn.Conv2d(8, 24, 5)
        self.wide = nn.Linear(384, 160)
        self.hidden = nn.Linear(160, 100)
        self.last = nn.Linear(100, classes)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.first(x)))
        x = self.pool(torch.relu(self.second(x)))
        x = torch.relu(self.wide(x.flatten(1)))
        x = torch.relu(self.hidden(x))
        return self.last(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 3, 28, 28)]


def get_init_inputs() -> list[int]:
    return [classes]
