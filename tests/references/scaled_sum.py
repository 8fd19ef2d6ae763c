"""A scaled sum, with a plain number among the inputs."""

import torch
from torch import nn

batch_size = 64
dim = 4096


class Model(nn.Module):
    def forward(self, x, factor, y):
        return factor * x + y


def get_inputs():
    return [torch.rand(batch_size, dim), 3.14, torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
