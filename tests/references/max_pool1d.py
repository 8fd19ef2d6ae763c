"""The largest elements of windows with a dilation."""

import torch
from torch import nn

batch_size = 16
features = 32
length = 2048
kernel_size = 4
stride = 2
padding = 2
dilation = 3


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, features, length)]


def get_init_inputs():
    return [kernel_size, stride, padding, dilation]
