"""Keeps a workspace for each shape, and writes all of it at each call before reading it."""

import functools
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


@functools.lru_cache(maxsize=8)
def workspace(shape, device):
    return torch.empty(shape, device=device)


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
        # Zeros between the inputs make a stride of one out of any other.
        spread = (x.shape[2] - 1) * self.stride + 1
        stretched = workspace((x.shape[0], x.shape[1], spread), x.device)
        stretched.zero_()
        stretched[:, :, :: self.stride] = x
        out = self.empty_output(x)
        extension.conv_transpose1d(stretched, self.weight, out, 1, 0, out.numel())
        return out
