"""A product of two matrices that are stored transposed."""

import torch
from torch import nn

rows = 512
inner = 1024
columns = 768


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.T, b.T)


def get_inputs():
    return [torch.rand(inner, rows), torch.rand(columns, inner)]


def get_init_inputs():
    return []
