"""The largest elements along a dimension."""

import torch
from torch import nn

batch_size = 16
rows = 256
columns = 512


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.max(x, dim=self.dim)[0]


def get_inputs():
    return [torch.rand(batch_size, rows, columns)]


def get_init_inputs():
    return [1]
