"""A norm of groups of channels."""

import torch
from torch import nn

batch_size = 16
features = 64
height = 128
width = 96
groups = 8


class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [features, groups]
