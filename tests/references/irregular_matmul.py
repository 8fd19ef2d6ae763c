"""A product of matrices whose sizes are not multiples of a usual tile's."""

import torch
from torch import nn

rows = 1031
inner = 517
columns = 2053


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
