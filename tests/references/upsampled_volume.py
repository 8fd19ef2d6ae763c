"""A transposed convolution of volumes with a stride, and without padding or bias."""

import torch
from torch import nn

batch_size = 4
in_channels = 24
out_channels = 16
depth = 12
height = 20
width = 40
kernel_size = (3, 5, 5)
stride = 2
padding = 0


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride, padding, bias=False
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
