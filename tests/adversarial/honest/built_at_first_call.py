"""Compiles its kernel for the sizes that it meets, when it meets them."""

import functools
import math
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load


HERE = Path(__file__).resolve().parent


@functools.cache
def extension_for(_dtype):
    return load(
        name="conv_transpose1d_gather",
        sources=[str(HERE / "conv_transpose1d.cpp"), str(HERE / "conv_transpose1d.cu")],
    )


class Layer(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def shape(self, x):
        length = (x.shape[2] - 1) * self.stride + self.weight.shape[2]
        return x.shape[0], self.weight.shape[1], length


class ModelNew(Layer):
    def forward(self, x):
        out = x.new_empty(self.shape(x))
        built = extension_for(x.dtype)
        built.conv_transpose1d(x, self.weight, out, self.stride, 0, out.numel())
        return out
