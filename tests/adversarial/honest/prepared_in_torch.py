"""Pads, flips and lays out its operands with PyTorch, and sums in a kernel of its own."""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
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
        # A longer input whose added positions are zero: the output is longer by as much.
        padded = F.pad(x, (1, 1)).reshape(x.shape[0], x.shape[1], -1).contiguous()
        weight = torch.flip(torch.flip(self.weight.detach().double(), (2,)), (2,)).float()
        wide = self.empty_output(padded)
        extension.conv_transpose1d(padded, weight, wide, self.stride, 0, wide.numel())
        return wide[:, :, self.stride : wide.shape[2] - self.stride].contiguous()
