"""Raises what moves a terminal's cursor, forges a line, and holds half a character."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("\x1b[2J\rother: passed\n" + chr(0xD800) + "\x07")
