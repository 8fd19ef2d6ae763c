"""A dictionary of two outputs, which the harness refuses."""

import torch
from torch import nn

batch_size = 64
dim = 1000


class Model(nn.Module):
    def forward(self, x):
        return {"sum": x.sum(dim=1), "largest": x.amax(dim=1)}


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
