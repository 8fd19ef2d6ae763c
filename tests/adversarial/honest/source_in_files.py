"""Its sources are files that lie beside it, built with load()."""

import math
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

HERE = Path(__file__).resolve().parent

extension = load(
    name="source_in_files",
    sources=[str(HERE / "source_in_files.cpp"), str(HERE / "source_in_files.cu")],
    extra_cuda_cflags=["-O3"],
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
        return extension.conv_transpose1d(x, self.weight, self.stride)
