"""Built as two extensions: one transposes the weight, the other convolves with what it gives."""

import math
from pathlib import Path

import torch
from torch import nn
from torch.utils.cpp_extension import load, load_inline

HERE = Path(__file__).resolve().parent
extension = load(
    name="conv_transpose1d_gather",
    sources=[str(HERE / "conv_transpose1d.cpp"), str(HERE / "conv_transpose1d.cu")],
)

PACK_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

// (in, out, kernel) or its transpose (kernel, in, out) into the other, one element a thread.
__global__ void move_axis(const float* from, float* to, int outer, int inner) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < outer * inner) to[index % inner * outer + index / inner] = from[index];
}

torch::Tensor transposed(torch::Tensor matrix) {
    auto out = torch::empty({matrix.size(1), matrix.size(0)}, matrix.options());
    move_axis<<<(matrix.numel() + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        matrix.data_ptr<float>(), out.data_ptr<float>(), matrix.size(0), matrix.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

packing = load_inline(
    name="transposition",
    cpp_sources="torch::Tensor transposed(torch::Tensor matrix);",
    cuda_sources=PACK_SOURCE,
    functions=["transposed"],
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
    def forward(self, x):
        out = self.empty_output(x)
        pairs = self.weight.shape[0] * self.weight.shape[1]
        taps_first = packing.transposed(self.weight.view(pairs, -1))
        weight = packing.transposed(taps_first).view_as(self.weight)
        extension.conv_transpose1d(x, weight, out, self.stride, 0, out.numel())
        return out
