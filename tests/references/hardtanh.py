"""Elements clamped between two limits."""

import torch
from torch import nn

batch_size = 64
dim = 4096


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.hardtanh(x, min_val=-1.0, max_val=1.0)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
