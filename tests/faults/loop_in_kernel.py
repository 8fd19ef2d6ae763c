"""Launches a kernel that never ends, and whose memory is never the same."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor spin(torch::Tensor x);"
cuda_source = """
__global__ void spin_kernel(volatile float* x) {
    volatile unsigned* count = reinterpret_cast<volatile unsigned*>(&x[1]);
    while (x[0] < 2.0f) { *count = *count + 1; }
}

torch::Tensor spin(torch::Tensor x) {
    auto y = x.clone();
    spin_kernel<<<1, 32>>>(y.data_ptr<float>());
    return y;
}
"""

extension = load_inline(
    name="loop_in_kernel",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["spin"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.spin(x)
