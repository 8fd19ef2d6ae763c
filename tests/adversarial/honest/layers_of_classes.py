"""Spreads the work over base classes, a mixin and a child module, as a library would."""

import math
from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

HERE = Path(__file__).resolve().parent
extension = load(
    name="conv_transpose1d_gather",
    sources=[str(HERE / "conv_transpose1d.cpp"), str(HERE / "conv_transpose1d.cu")],
)


class Sized(ABC):
    @abstractmethod
    def output_length(self, length): ...

    def allocate(self, x):
        return x.new_empty(x.shape[0], self.out_channels, self.output_length(x.shape[2]))


class Weights(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x, out, stride):
        extension.conv_transpose1d(x, self.weight, out, stride, 0, out.numel())
        return out


class Transposed(nn.Module, Sized):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        self.out_channels, self.kernel_size, self.stride = out_channels, kernel_size, stride
        self.kernel = Weights(in_channels, out_channels, kernel_size)

    def output_length(self, length):
        return (length - 1) * self.stride + self.kernel_size

    def forward(self, x):
        return self.kernel(x, self.allocate(x), self.stride)


class ModelNew(Transposed):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__(in_channels, out_channels, kernel_size, stride=stride)
