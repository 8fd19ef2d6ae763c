"""Multiplies with cuBLAS and only adds up the columns itself."""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cublas_v2.h>

__global__ void add_columns(const float* columns, float* out, int total, int kernel_size,
                            int length, int out_length, int stride) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= total) return;
    const int t = index % out_length, row = index / out_length;
    float sum = 0.0f;
    for (int k = t % stride; k < kernel_size && k <= t; k += stride) {
        const int i = (t - k) / stride;
        if (i < length) sum += columns[(row * kernel_size + k) * length + i];
    }
    out[index] = sum;
}

torch::Tensor fast(torch::Tensor x, torch::Tensor weight, int64_t stride) {
    const int64_t batch = x.size(0), channels = x.size(1), length = x.size(2);
    const int64_t rows = weight.size(1) * weight.size(2);
    auto columns = torch::empty({batch, rows, length}, x.options());
    const float one = 1.0f, zero = 0.0f;
    cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
    cublasSgemmStridedBatched(
        handle, CUBLAS_OP_N, CUBLAS_OP_T, length, rows, channels, &one, x.data_ptr<float>(), length,
        channels * length, weight.data_ptr<float>(), rows, 0, &zero, columns.data_ptr<float>(),
        length, rows * length, batch);
    auto out = torch::empty({batch, weight.size(1), (length - 1) * stride + weight.size(2)},
                            x.options());
    const int total = out.numel();
    add_columns<<<(total + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        columns.data_ptr<float>(), out.data_ptr<float>(), total, weight.size(2), length,
        out.size(2), stride);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

extension = load_inline(
    name="blas_transposed",
    cpp_sources="torch::Tensor fast(torch::Tensor x, torch::Tensor weight, int64_t stride);",
    cuda_sources=CUDA_SOURCE,
    functions=["fast"],
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
        return extension.fast(x, self.weight, self.stride)
