"""Transposed 1-D convolution on a three-dimensional grid that mirrors the output's axes.

Block (x, y, z) computes 128 output positions of output channel y in batch element z, so no index
has to be divided into coordinates, and a whole block shares one row of weights. Tensor strides are
kernel arguments: a transposed or sliced input is read where it lies, without a copy. Each thread
does at most in_channels * kernel_size multiply-adds out of the caches; blocks of a short output
are mostly idle threads.
"""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_grid3d(
    torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding, int64_t output_padding);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

constexpr int kThreads = 128;
// The hardware's limit for the y and z axes of a grid; longer axes are walked in steps.
constexpr int64_t kMaxGridYZ = 65535;

__global__ void __launch_bounds__(kThreads) conv_transpose1d_grid3d_kernel(
    const float* __restrict__ x,
    int64_t x_stride_b, int64_t x_stride_c, int64_t x_stride_l,
    const float* __restrict__ w,
    int64_t w_stride_i, int64_t w_stride_o, int64_t w_stride_k,
    float* __restrict__ out,
    int64_t out_stride_b, int64_t out_stride_c,
    int batch, int in_channels, int in_length, int out_channels, int out_length,
    int kernel_size, int stride, int padding) {
    // Unsigned, because the last block may reach past 2^31.
    const unsigned int position = blockIdx.x * kThreads + threadIdx.x;
    if (position >= (unsigned int)out_length) return;
    const int t = (int)position;

    for (int b = blockIdx.z; b < batch; b += gridDim.z) {
        for (int co = blockIdx.y; co < out_channels; co += gridDim.y) {
            float acc = 0.0f;
            for (int k = 0; k < kernel_size; ++k) {
                const int numerator = t + padding - k;
                if (numerator < 0) break;
                if (numerator % stride != 0) continue;
                const int i = numerator / stride;
                if (i >= in_length) continue;
                const float* x_ptr = x + b * x_stride_b + i * x_stride_l;
                const float* w_ptr = w + co * w_stride_o + k * w_stride_k;
                for (int ci = 0; ci < in_channels; ++ci) {
                    acc = fmaf(x_ptr[ci * x_stride_c], w_ptr[ci * w_stride_i], acc);
                }
            }
            out[b * out_stride_b + co * out_stride_c + t] = acc;
        }
    }
}

torch::Tensor conv_transpose1d_grid3d(
    torch::Tensor x,
    torch::Tensor weight,
    int64_t stride,
    int64_t padding,
    int64_t output_padding) {
    TORCH_CHECK(x.is_cuda() && weight.device() == x.device(), "x and weight must be on one GPU");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && weight.scalar_type() == torch::kFloat32,
                "only float32 is supported");
    TORCH_CHECK(x.dim() == 3 && weight.dim() == 3, "x and weight must be 3-dimensional");
    TORCH_CHECK(x.size(1) == weight.size(0), "x must have ", weight.size(0), " channels");
    TORCH_CHECK(stride > 0 && padding >= 0 && output_padding >= 0, "bad stride or padding");

    const int64_t batch = x.size(0);
    const int64_t in_length = x.size(2);
    const int64_t out_channels = weight.size(1);
    const int64_t kernel_size = weight.size(2);
    const int64_t out_length =
        (in_length - 1) * stride - 2 * padding + kernel_size + output_padding;
    TORCH_CHECK(in_length > 0 && out_length > 0, "the input is too short for this padding");
    TORCH_CHECK(std::max({batch, in_length, out_length + padding})
                    <= std::numeric_limits<int>::max() - kMaxGridYZ,
                "an axis is too long for 32-bit positions");

    auto out = torch::empty({batch, out_channels, out_length}, x.options());
    if (out.numel() == 0) return out;

    const dim3 grid(
        (unsigned int)((out_length + kThreads - 1) / kThreads),
        (unsigned int)std::min(out_channels, kMaxGridYZ),
        (unsigned int)std::min(batch, kMaxGridYZ));
    conv_transpose1d_grid3d_kernel<<<grid, dim3(kThreads)>>>(
        x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2),
        weight.data_ptr<float>(), weight.stride(0), weight.stride(1), weight.stride(2),
        out.data_ptr<float>(), out.stride(0), out.stride(1),
        (int)batch, (int)x.size(1), (int)in_length, (int)out_channels, (int)out_length,
        (int)kernel_size, (int)stride, (int)padding);
    const cudaError_t status = cudaGetLastError();
    TORCH_CHECK(status == cudaSuccess, "CUDA error: ", cudaGetErrorString(status));
    return out;
}
"""

module = load_inline(
    name="conv_transpose1d_grid3d",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_grid3d"],
    extra_cuda_cflags=["-O3"],
    verbose=False,
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution in float32, forward only.

    Raises:
        ValueError: `groups` is not 1 or `bias` is true; the kernel has neither.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if groups != 1:
            raise ValueError(f"groups={groups} is not supported, only groups=1")
        if bias:
            raise ValueError("bias=True is not supported")
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        # kaiming_uniform_(a=sqrt(5)), written out, as nn.ConvTranspose1d initialises.
        bound = 1 / math.sqrt(out_channels * kernel_size)
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        return module.conv_transpose1d_grid3d(
            x, self.weight, self.stride, self.padding, self.output_padding
        )
