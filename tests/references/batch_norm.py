"""A batch norm, which is in training mode when it is built."""

import torch
from torch import nn

batch_size = 16
features = 64
height = 128
width = 96


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm2d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [features]
