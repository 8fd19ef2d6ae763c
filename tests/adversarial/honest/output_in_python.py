"""Allocates its output in Python with torch.zeros and empty_like, and fills it in slices."""

import math
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

HERE = Path(__file__).resolve().parent
extension = load(
    name="conv_transpose1d_gather",
    sources=[str(HERE / "conv_transpose1d.cpp"), str(HERE / "conv_transpose1d.cu")],
)


class Layer(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def empty_output(self, x):
        length = (x.shape[2] - 1) * self.stride + self.weight.shape[2]
        return x.new_empty(x.shape[0], self.weight.shape[1], length)


class ModelNew(Layer):
    def forward(self, x):
        shape = self.empty_output(x).shape
        out = torch.empty_like(torch.zeros(shape, device=x.device, dtype=x.dtype))
        step = max(1, out.numel() // 3)
        for first in range(0, out.numel(), step):
            last = min(first + step, out.numel())
            extension.conv_transpose1d(x, self.weight, out, self.stride, first, last)
        return out
