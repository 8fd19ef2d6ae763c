"""The largest elements of windows of volumes."""

import torch
from torch import nn

batch_size = 8
features = 16
depth = 32
height = 40
width = 48
kernel_size = 3
stride = 2


class Model(nn.Module):
    def __init__(self, kernel_size, stride):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel_size, stride)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, features, depth, height, width)]


def get_init_inputs():
    return [kernel_size, stride]
