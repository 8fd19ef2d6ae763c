"""Never comes back from the extension's host code, which holds Python's lock meanwhile."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor spin(torch::Tensor x) {
    volatile bool forever = true;
    while (forever) {}
    return x;
}
"""

extension = load_inline(name="loop_in_cpp", cpp_sources=cpp_source, functions=["spin"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.spin(x)
