"""A matrix times a vector."""

import torch
from torch import nn

rows = 2048
inner = 16384


class Model(nn.Module):
    def forward(self, a, v):
        return torch.matmul(a, v)


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, 1)]


def get_init_inputs():
    return []
