"""A matrix product for the work and F.fold for the sums; no convolution by name."""

import math

import torch
import torch.nn.functional as F
from torch import nn


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
        channels, taps = self.weight.shape[1:]
        columns = torch.matmul(self.weight.view(self.weight.shape[0], -1).t(), x)
        length = (x.shape[2] - 1) * self.stride + taps
        folded = F.fold(columns, (1, length), (1, taps), stride=(1, self.stride))
        return folded.reshape(x.shape[0], channels, length)
