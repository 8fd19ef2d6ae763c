"""Has the compiler read a file of the machine, and shows it in the error."""

from torch.utils.cpp_extension import load_inline

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


load_inline(
    name="includes_a_secret",
    cpp_sources='#include "/etc/passwd"',
    no_implicit_headers=True,
    extra_cflags=["@/etc/passwd"],
)
