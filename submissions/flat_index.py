"""Transposed 1-D convolution with one thread per output element, found from a flat index.

Every output position gathers the input positions that reach it, so no two threads write to the
same place and no atomics are needed. Each thread does at most in_channels * kernel_size
multiply-adds (a stride s leaves one in s of them) and loads both operands of each from global
memory; neighbouring threads read neighbouring inputs and share the weight, so the caches do what
shared memory would. Works for float, double, half and bfloat16; the half types are summed in float.
"""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor conv_transpose1d_flat(
    torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding, int64_t output_padding);
"""

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/OpMathType.h>
#include <cuda_runtime.h>

#include <limits>

template <typename scalar_t>
__global__ void conv_transpose1d_flat_kernel(
    const scalar_t* __restrict__ x,
    const scalar_t* __restrict__ weight,
    scalar_t* __restrict__ out,
    int64_t total,
    int in_channels,
    int in_length,
    int out_channels,
    int out_length,
    int kernel_size,
    int stride,
    int padding) {
    // Tensors may hold more than 2^31 elements, a single axis may not (the host checks): only the
    // flat index needs 64-bit divisions, and the loop over taps does with 32 bits.
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= total) {
        return;
    }
    const int64_t row = index / out_length;
    const int t = static_cast<int>(index - row * out_length);
    const int64_t b = row / out_channels;
    const int co = static_cast<int>(row - b * out_channels);

    using acc_t = at::opmath_type<scalar_t>;
    acc_t sum = 0;
    for (int k = 0; k < kernel_size; ++k) {
        const int shifted = t + padding - k;
        if (shifted < 0) {
            break;
        }
        const int i = shifted / stride;
        if (i * static_cast<int64_t>(stride) != shifted || i >= in_length) {
            continue;
        }
        const scalar_t* x_tap = x + b * in_channels * in_length + i;
        const scalar_t* w_tap = weight + static_cast<int64_t>(co) * kernel_size + k;
        for (int ci = 0; ci < in_channels; ++ci) {
            sum += static_cast<acc_t>(*x_tap) * static_cast<acc_t>(*w_tap);
            x_tap += in_length;
            w_tap += static_cast<int64_t>(out_channels) * kernel_size;
        }
    }
    out[index] = static_cast<scalar_t>(sum);
}

torch::Tensor conv_transpose1d_flat(
    torch::Tensor x,
    torch::Tensor weight,
    int64_t stride,
    int64_t padding,
    int64_t output_padding) {
    TORCH_CHECK(x.is_cuda() && weight.is_cuda(), "x and weight must be CUDA tensors");
    TORCH_CHECK(x.device() == weight.device(), "x and weight must be on the same device");
    TORCH_CHECK(x.scalar_type() == weight.scalar_type(), "x and weight must have the same dtype");
    TORCH_CHECK(x.dim() == 3 && weight.dim() == 3, "x and weight must be 3-dimensional");
    TORCH_CHECK(x.size(1) == weight.size(0), "x must have ", weight.size(0), " channels");
    TORCH_CHECK(stride > 0 && padding >= 0 && output_padding >= 0, "bad stride or padding");
    x = x.contiguous();
    weight = weight.contiguous();

    const int64_t batch = x.size(0);
    const int64_t in_length = x.size(2);
    const int64_t out_channels = weight.size(1);
    const int64_t kernel_size = weight.size(2);
    const int64_t out_length =
        (in_length - 1) * stride - 2 * padding + (kernel_size - 1) + output_padding + 1;
    TORCH_CHECK(in_length > 0 && out_length > 0, "input of length ", in_length, " is too short");
    const int64_t int_max = std::numeric_limits<int>::max();
    TORCH_CHECK(in_length <= int_max && out_length + padding <= int_max, "axis too long");

    auto out = torch::empty({batch, out_channels, out_length}, x.options());
    const int64_t total = out.numel();
    if (total == 0) {
        return out;
    }
    const int threads = 256;
    const int64_t blocks = (total + threads - 1) / threads;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, x.scalar_type(), "conv_transpose1d_flat", [&] {
            conv_transpose1d_flat_kernel<scalar_t><<<static_cast<unsigned int>(blocks), threads>>>(
                x.data_ptr<scalar_t>(),
                weight.data_ptr<scalar_t>(),
                out.data_ptr<scalar_t>(),
                total,
                static_cast<int>(x.size(1)),
                static_cast<int>(in_length),
                static_cast<int>(out_channels),
                static_cast<int>(out_length),
                static_cast<int>(kernel_size),
                static_cast<int>(stride),
                static_cast<int>(padding));
        });
    const cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, "launch failed: ", cudaGetErrorString(error));
    return out;
}
"""

extension = load_inline(
    name="conv_transpose1d_flat_index",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["conv_transpose1d_flat"],
    verbose=False,
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution without groups, dilation or bias; forward only."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
    ) -> None:
        super().__init__()
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size))
        # The initialisation of nn.ConvTranspose1d.
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        return extension.conv_transpose1d_flat(
            x, self.weight, self.stride, self.padding, self.output_padding
        )
