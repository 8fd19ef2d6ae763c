"""A product of lower triangular matrices."""

import torch
from torch import nn

size = 1024


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(torch.matmul(a, b))


def get_inputs():
    return [torch.tril(torch.rand(size, size)), torch.tril(torch.rand(size, size))]


def get_init_inputs():
    return []
