"""Raises an exception at import."""

import torch.nn as nn

raise RuntimeError("no suitable GPU for this kernel")


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()

    def forward(self, x):
        return x
