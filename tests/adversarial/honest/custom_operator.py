"""Registers its kernel with torch.library.custom_op, which imports torch's compiler."""

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


@torch.library.custom_op("two_lines::conv_transpose1d", mutates_args=(), device_types="cuda")
def op(x: torch.Tensor, weight: torch.Tensor, stride: int) -> torch.Tensor:
    out = x.new_empty(x.shape[0], weight.shape[1], (x.shape[2] - 1) * stride + weight.shape[2])
    extension.conv_transpose1d(x, weight, out, stride, 0, out.numel())
    return out


@op.register_fake
def _(x, weight, stride):
    return x.new_empty(x.shape[0], weight.shape[1], (x.shape[2] - 1) * stride + weight.shape[2])


class ModelNew(Layer):
    def forward(self, x):
        return op(x, self.weight, self.stride)
