"""Means of windows of images."""

import torch
from torch import nn

batch_size = 16
features = 64
height = 128
width = 96
kernel_size = 5


class Model(nn.Module):
    def __init__(self, kernel_size):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [kernel_size]
