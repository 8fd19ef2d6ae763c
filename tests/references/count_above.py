"""Counts of the elements above a limit, as integers."""

import torch
from torch import nn

batch_size = 64
dim = 1000


class Model(nn.Module):
    def forward(self, x):
        return (x > 0.5).sum(dim=1)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
