"""A comparison of a tensor with twice another tensor; the output is boolean."""

import torch
from torch import nn

batch_size = 64
dim = 1000


class Model(nn.Module):
    def forward(self, x, y):
        return x > 2 * y


def get_inputs():
    return [torch.rand(batch_size, dim), torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
