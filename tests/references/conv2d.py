"""A convolution of images."""

import torch
from torch import nn

batch_size = 8
in_channels = 16
out_channels = 64
height = 96
width = 128
padding = 1


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, padding):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, (3, 5), padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, padding]
