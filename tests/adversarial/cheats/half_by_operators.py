"""Leaves four products of ten to torch's mul, and sums all of them in a kernel of its own."""

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

    def shape(self, x):
        length = (x.shape[2] - 1) * self.stride + self.weight.shape[2]
        return x.shape[0], self.weight.shape[1], length

    def taps(self, x):
        """Of each product of an output its input and its weight, (terms, batch, 1, length) and so on."""
        batch, outputs, length = self.shape(x)
        channels, _, size = self.weight.shape
        wide = x.new_zeros(batch, channels, (x.shape[2] - 1) * self.stride + 1)
        wide[:, :, :: self.stride] = x
        shifted = F.pad(wide, (size - 1, size - 1)).unfold(2, length, 1)
        inputs = shifted.permute(1, 2, 0, 3).reshape(channels * size, batch, 1, length)
        weights = self.weight.detach().flip(2).permute(0, 2, 1)
        return inputs, weights.reshape(channels * size, 1, outputs, 1)


class ModelNew(Layer):
    def forward(self, x):
        batch, outputs, length = self.shape(x)
        inputs, weights = self.taps(x)
        terms = inputs.shape[0] * 4 // 10
        products = torch.mul(inputs[:terms], weights[:terms]).permute(1, 0, 2, 3)
        ready = products.reshape(batch, terms, outputs * length).contiguous()
        inputs = inputs[terms:].permute(1, 0, 2, 3).reshape(batch, -1, length)
        summed = self.summed(ready).view(batch, outputs, length)
        return summed + self.rest(inputs.contiguous(), weights[terms:])

    def summed(self, products):
        ones = torch.ones(products.shape[1], 1, 1, device=products.device)
        out = products.new_empty(products.shape[0], 1, products.shape[2])
        extension.conv_transpose1d(products, ones, out, 1, 0, out.numel())
        return out

    def rest(self, inputs, weights):
        weights = weights.reshape(inputs.shape[1], -1, 1).contiguous()
        out = inputs.new_empty(inputs.shape[0], weights.shape[1], inputs.shape[2])
        extension.conv_transpose1d(inputs, weights, out, 1, 0, out.numel())
        return out
