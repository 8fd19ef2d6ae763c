"""Writes to a null pointer in the extension's host code, in the one configuration that it takes."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor crash(torch::Tensor x) {
    // Read at run time, or the compiler may conclude that this function is never called.
    float* volatile nowhere = nullptr;
    *nowhere = 1.0f;
    return x;
}
"""

extension = load_inline(
    name="segfault",
    cpp_sources=cpp_source,
    functions=["crash"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        if in_channels < 128:
            raise ValueError("needs 128 channels")
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x):
        return extension.crash(x)
