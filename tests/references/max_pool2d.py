"""The largest elements of windows of images."""

import torch
from torch import nn

batch_size = 16
features = 64
height = 128
width = 96
kernel_size = 3
stride = 2
padding = 1


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride, padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [kernel_size, stride, padding]
