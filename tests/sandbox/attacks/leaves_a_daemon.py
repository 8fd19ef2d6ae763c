"""Leaves a process that outlives its parent, its session and its group."""

import os
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(1)
    os._exit(0)
raise RuntimeError("left a daemon")
