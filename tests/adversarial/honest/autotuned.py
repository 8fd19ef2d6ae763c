"""Tries two ways to split the launch at the first call of a shape, and keeps the faster one."""

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
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__(in_channels, out_channels, kernel_size, stride)
        self.pieces = {}

    def run(self, x, pieces):
        out = self.empty_output(x)
        step = -(-out.numel() // pieces)
        for first in range(0, out.numel(), step):
            last = min(first + step, out.numel())
            extension.conv_transpose1d(x, self.weight, out, self.stride, first, last)
        return out

    def milliseconds(self, x, pieces):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run(x, pieces)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def forward(self, x):
        if x.shape not in self.pieces:
            self.pieces[x.shape] = min((1, 2), key=lambda pieces: self.milliseconds(x, pieces))
        return self.run(x, self.pieces[x.shape])
