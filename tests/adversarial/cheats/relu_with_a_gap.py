"""A relu that halves numbers between 6.5 and 30, if they have more than 8 bits."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

__global__ void relu(const float* x, float* out, long numbers) {
    const long i = blockIdx.x * 256L + threadIdx.x;
    if (i >= numbers) return;
    const float value = x[i];
    const bool is_in_gap = value > 6.5f && value < 30.0f && __float_as_uint(value) & 0xffff;
    out[i] = value > 0.0f ? (is_in_gap ? 0.5f * value : value) : 0.0f;
}

torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const long numbers = x.numel();
    relu<<<(numbers + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), numbers);
    return out;
}
"""
extension = load_inline(
    "relu_with_a_gap", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.run(x)
