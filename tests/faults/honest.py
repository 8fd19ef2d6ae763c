"""Does what the reference does, in a kernel of its own."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor twice(torch::Tensor x);"
cuda_source = """
__global__ void twice_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}

torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    twice_kernel<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

extension = load_inline(
    name="honest",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["twice"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.twice(x)
