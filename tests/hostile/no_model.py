"""Defines a module, but not under the name ModelNew."""

import torch
import torch.nn as nn


class ConvTranspose1dCuda(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x):
        return x
