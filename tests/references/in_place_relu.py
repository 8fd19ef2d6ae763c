"""A module that writes to its input."""

import torch
from torch import nn

batch_size = 64
dim = 4096


class Model(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.limit = limit

    def forward(self, x):
        return self.relu(x).clamp_(max=self.limit)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return [6.0]
