"""Dilated transposed 1-D convolution in float32, one thread per output element.

The gather form: output position t takes from input position (t + padding - k * dilation) / stride
for each tap k, wherever that divides evenly and falls inside the input. The channels are the inner
loop, so where a tap comes from is worked out once per tap and not once per multiply-add. Each
thread does at most in_channels * kernel_size multiply-adds out of the caches. The bias is one
broadcast addition in PyTorch: another read and write of the output.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_dilated(
    torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#include <limits>

#define CHECK_INPUT(x)                                                      \
    TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor");                \
    TORCH_CHECK((x).scalar_type() == at::kFloat, #x " must be float32");    \
    TORCH_CHECK((x).dim() == 3, #x " must be 3-dimensional")

__global__ void conv_transpose1d_dilated_kernel(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    float* __restrict__ out,
    const int64_t total,
    const int in_channels,
    const int in_length,
    const int out_channels,
    const int out_length,
    const int kernel_size,
    const int stride,
    const int padding,
    const int dilation) {
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= total) return;

    const int t = (int)(index % out_length);
    const int64_t row = index / out_length;
    const int co = (int)(row % out_channels);
    const int64_t b = row / out_channels;

    const float* x_batch = x + b * in_channels * in_length;
    float acc = 0.0f;
    for (int k = 0; k < kernel_size; ++k) {
        const int shifted = t + padding - k * dilation;
        // C++ division truncates towards zero, so negative positions must go before the division.
        if (shifted < 0 || shifted % stride != 0) continue;
        const int i = shifted / stride;
        if (i >= in_length) continue;
        for (int ci = 0; ci < in_channels; ++ci) {
            const float x_value = x_batch[(int64_t)ci * in_length + i];
            const float w_value = weight[((int64_t)ci * out_channels + co) * kernel_size + k];
            acc += x_value * w_value;
        }
    }
    out[index] = acc;
}

torch::Tensor conv_transpose1d_dilated(
    torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding, int64_t dilation) {
    CHECK_INPUT(x);
    CHECK_INPUT(weight);
    TORCH_CHECK(x.device() == weight.device(), "x and weight must be on the same device");
    TORCH_CHECK(x.size(1) == weight.size(0), "wrong number of input channels");
    TORCH_CHECK(stride > 0 && padding >= 0 && dilation > 0, "bad stride, padding or dilation");
    x = x.contiguous();
    weight = weight.contiguous();

    const int64_t in_length = x.size(2);
    const int64_t out_channels = weight.size(1);
    const int64_t kernel_size = weight.size(2);
    const int64_t reach = dilation * (kernel_size - 1);
    const int64_t out_length = (in_length - 1) * stride - 2 * padding + reach + 1;
    TORCH_CHECK(in_length > 0 && out_length > 0, "input is too short");
    // The kernel counts positions along one axis in 32 bits.
    const int64_t limit = std::numeric_limits<int>::max();
    TORCH_CHECK(in_length <= limit && out_length + padding <= limit && reach <= limit,
                "axis too long");

    auto out = torch::empty({x.size(0), out_channels, out_length}, x.options());
    const int64_t total = out.numel();
    if (total == 0) return out;

    const int threads = 256;
    const int64_t blocks = (total + threads - 1) / threads;
    conv_transpose1d_dilated_kernel<<<(unsigned int)blocks, threads>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), total,
        (int)x.size(1), (int)in_length, (int)out_channels, (int)out_length,
        (int)kernel_size, (int)stride, (int)padding, (int)dilation);
    cudaError_t err = cudaGetLastError();
    TORCH_CHECK(err == cudaSuccess, "kernel launch failed: ", cudaGetErrorString(err));
    return out;
}
"""

conv_transpose1d_dilated = load_inline(
    name="conv_transpose1d_dilated",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_dilated"],
    verbose=False,
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution with stride, padding and dilation; float32, forward only."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        # Holds the parameters, so that names and initialisation are those of the reference.
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )
        self.stride = stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        out = conv_transpose1d_dilated.conv_transpose1d_dilated(
            x, self.conv1d_transpose.weight, self.stride, self.padding, self.dilation
        )
        bias = self.conv1d_transpose.bias
        return out if bias is None else out + bias.view(1, -1, 1)
