"""Re-packs the weights only when they have changed, in-place changes included."""

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
        self.packed = None
        self.packed_from = None

    def pack(self):
        # Every in-place change makes a new version, and .to() or .data another address.
        state = (self.weight.data_ptr(), self.weight._version)
        if state != self.packed_from:
            flipped = self.weight.detach().flip(2)
            self.packed = flipped.flip(2).contiguous()
            self.packed_from = state
        return self.packed

    def forward(self, x):
        out = self.empty_output(x)
        extension.conv_transpose1d(x, self.pack(), out, self.stride, 0, out.numel())
        return out
