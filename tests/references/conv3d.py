"""A convolution of volumes."""

import torch
from torch import nn

batch_size = 4
in_channels = 8
out_channels = 24
depth = 24
height = 32
width = 40
kernel_size = 3
stride = 2


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=stride)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
