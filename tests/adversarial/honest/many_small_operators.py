"""Many operators and launches in each call, each with numbers of the host."""

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


class ModelNew(Layer):
    def forward(self, x):
        out = x.new_empty(self.shape(x))
        weight = torch.zeros_like(self.weight)
        # One tap after the other, each weight scaled and shifted by what comes to nothing.
        for tap in range(weight.shape[2]):
            column = self.weight[:, :, tap : tap + 1].clone()
            column = F.pad(column, (1, 1), value=0.25)[:, :, 1:2]
            places = torch.tensor([tap], device=x.device)
            weight.index_add_(2, places, column)
        if bool(weight.isfinite().all()):
            each = out.numel() // out.shape[0]
            # A launch for each row of the batch.
            for row in range(out.shape[0]):
                extension.conv_transpose1d(x, weight, out, self.stride, row * each, (row + 1) * each)
        return out
