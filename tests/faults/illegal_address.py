"""Launches a kernel that stores to an address that is nobody's: the device is unusable then."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor poison(torch::Tensor x);"
cuda_source = """
__global__ void poison_kernel(float* x) {
    x[1LL << 40] = 1.0f;
}

torch::Tensor poison(torch::Tensor x) {
    poison_kernel<<<1, 1>>>(x.data_ptr<float>());
    return x + x;
}
"""

extension = load_inline(
    name="illegal_address",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["poison"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.poison(x)
