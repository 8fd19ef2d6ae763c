"""Products of pairs of matrices."""

import torch
from torch import nn

batch = 32
rows = 256
inner = 512
columns = 128


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.rand(batch, rows, inner), torch.rand(batch, inner, columns)]


def get_init_inputs():
    return []
