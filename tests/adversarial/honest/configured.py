"""Reads its configuration from the environment into a dataclass, logs, prints, and counts calls."""

import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Config:
    pieces: int = 2
    verbose: bool = True

    @classmethod
    def from_environment(cls):
        return cls(pieces=max(1, int(os.environ.get("CONV_PIECES", "2"))))


CONFIG = Config.from_environment()
print(f"conv_transpose1d: {CONFIG}")

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
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 5 == 0:
            print('{"calls": %d}' % self.calls)
        log.debug("call %d on %s", self.calls, tuple(x.shape))
        out = self.empty_output(x)
        step = -(-out.numel() // CONFIG.pieces)
        for first in range(0, out.numel(), step):
            last = min(first + step, out.numel())
            extension.conv_transpose1d(x, self.weight, out, self.stride, first, last)
        return out
