"""Keeps a table in managed memory, weights in constant memory, and a tail beside its vectors."""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>
namespace cg = cooperative_groups;

constexpr int kMostTaps = 64;
__constant__ float kWeights[8192];

__global__ void fill(float4* out4, float* out, int64_t n) {
    const auto grid = cg::this_grid();
    for (int64_t i = grid.thread_rank(); i < n / 4; i += grid.size())
        out4[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (grid.thread_rank() == 0)
        for (int64_t i = n / 4 * 4; i < n; ++i) out[i] = 0.f;
}

__global__ void conv(const float* __restrict__ x, const float* __restrict__ w, const int* offsets,
                     float* __restrict__ out, int I, int O, int L, int T, int K, int stride,
                     bool in_constant) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y, b = blockIdx.z;
    if (t >= T) return;
    const float* weights = in_constant ? kWeights : w;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) {
        const int shifted = t - offsets[k];
        if (shifted < 0 || shifted % stride || shifted / stride >= L) continue;
        for (int i = 0; i < I; ++i)
            sum = fmaf(x[(b * I + i) * L + shifted / stride], weights[(i * O + o) * K + k], sum);
    }
    atomicAdd(&out[(b * O + o) * T + t], sum);
}

torch::Tensor conv_transpose1d(torch::Tensor x, torch::Tensor w, int64_t stride) {
    const int B = x.size(0), I = x.size(1), L = x.size(2), O = w.size(1), K = w.size(2);
    TORCH_CHECK(K <= kMostTaps, "at most 64 taps");
    const int T = (L - 1) * stride + K;
    auto out = torch::empty({B, O, T}, x.options());
    auto stream = c10::cuda::getCurrentCUDAStream();
    static int* offsets = nullptr;
    if (!offsets) {
        C10_CUDA_CHECK(cudaMallocManaged(&offsets, kMostTaps * sizeof(int)));
        for (int k = 0; k < kMostTaps; ++k) offsets[k] = k;
    }
    const bool fits = w.numel() <= 8192;
    if (fits)
        C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(kWeights, w.data_ptr<float>(), w.numel() * 4, 0,
                                               cudaMemcpyDeviceToDevice, stream));
    C10_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0xff, out.nbytes(), stream));
    fill<<<4, 64, 0, stream>>>(reinterpret_cast<float4*>(out.data_ptr<float>()),
                               out.data_ptr<float>(), out.numel());
    const dim3 grid((T + 127) / 128, O, B);
    conv<<<grid, 128, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(), offsets,
                                   out.data_ptr<float>(), I, O, L, T, K, stride, fits);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

extension = load_inline(
    name="managed_table",
    cpp_sources="torch::Tensor conv_transpose1d(torch::Tensor x, torch::Tensor w, int64_t stride);",
    cuda_sources=SOURCE,
    functions=["conv_transpose1d"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "--use_fast_math", "--expt-relaxed-constexpr", "-Xptxas=-v"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x):
        return extension.conv_transpose1d(x.contiguous(), self.weight, self.stride)
