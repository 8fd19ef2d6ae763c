"""Transposed 1-D convolution with stride, padding and dilation into an output made by the caller.

A row of blocks per (batch element, output channel), so that only the row number is divided, once
per block and the same for all its threads; the threads walk along the row. Of the taps of each
output position only those with (t + padding - k * dilation) divisible by the stride have an input,
about one in stride of them. The output is allocated in Python and every element of it is written,
so it needs no clearing.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
void conv_transpose1d_out(
    const torch::Tensor& input,
    const torch::Tensor& weight,
    torch::Tensor output,
    int64_t stride,
    int64_t padding,
    int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#include <algorithm>

static constexpr int THREADS = 256;

__global__ void conv_transpose1d_row_kernel(
    const float* __restrict__ input,
    const float* __restrict__ weight,
    float* __restrict__ output,
    const int in_channels,
    const int in_length,
    const int out_channels,
    const int out_length,
    const int kernel_size,
    const int stride,
    const int padding,
    const int dilation)
{
    const int row = blockIdx.x;
    const int batch = row / out_channels;
    const int out_channel = row % out_channels;

    const float* in_rows = input + (int64_t)batch * in_channels * in_length;
    const float* filter = weight + (int64_t)out_channel * kernel_size;
    const int64_t filter_step = (int64_t)out_channels * kernel_size;
    float* out_row = output + (int64_t)row * out_length;

    const int step = gridDim.y * THREADS;
    for (int t = blockIdx.y * THREADS + threadIdx.x; t < out_length; t += step) {
        float sum = 0.0f;
        for (int k = 0; k < kernel_size; ++k) {
            const int position = t + padding - k * dilation;
            if (position < 0 || position % stride != 0) {
                continue;
            }
            const int source = position / stride;
            if (source < in_length) {
                for (int c = 0; c < in_channels; ++c) {
                    sum += in_rows[(int64_t)c * in_length + source] * filter[c * filter_step + k];
                }
            }
        }
        out_row[t] = sum;
    }
}

void conv_transpose1d_out(
    const torch::Tensor& input,
    const torch::Tensor& weight,
    torch::Tensor output,
    int64_t stride,
    int64_t padding,
    int64_t dilation)
{
    for (const auto& tensor : {input, weight, output}) {
        TORCH_CHECK(tensor.is_cuda(), "expected a CUDA tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat, "expected a float32 tensor");
        TORCH_CHECK(tensor.is_contiguous(), "expected a contiguous tensor");
        TORCH_CHECK(tensor.dim() == 3, "expected a 3-dimensional tensor");
    }
    TORCH_CHECK(stride > 0 && padding >= 0 && dilation > 0, "bad stride, padding or dilation");
    const int64_t in_length = input.size(2);
    const int64_t kernel_size = weight.size(2);
    const int64_t out_length = output.size(2);
    const int64_t reach = dilation * (kernel_size - 1);
    TORCH_CHECK(input.size(1) == weight.size(0), "wrong number of input channels");
    TORCH_CHECK(output.size(0) == input.size(0) && output.size(1) == weight.size(1) &&
                out_length == (in_length - 1) * stride - 2 * padding + reach + 1,
                "output has the wrong shape");
    // Rows and positions are counted in 32 bits; half of their range leaves room for a step.
    const int64_t rows = output.size(0) * output.size(1);
    const int64_t limit = int64_t(1) << 30;
    TORCH_CHECK(std::max({rows, in_length, out_length + padding, reach}) < limit, "axis too long");
    if (rows == 0) {
        return;
    }

    const int64_t blocks_per_row = (out_length + THREADS - 1) / THREADS;
    const dim3 grid(rows, std::min<int64_t>(blocks_per_row, 65535));
    conv_transpose1d_row_kernel<<<grid, THREADS>>>(
        input.data_ptr<float>(),
        weight.data_ptr<float>(),
        output.data_ptr<float>(),
        input.size(1),
        in_length,
        weight.size(1),
        out_length,
        kernel_size,
        stride,
        padding,
        dilation);
    const cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, "conv_transpose1d_row_kernel: ", cudaGetErrorString(error));
}
"""

extension = load_inline(
    name="conv_transpose1d_strided_dilated",
    cpp_sources=[cpp_source],
    cuda_sources=[cuda_source],
    functions=["conv_transpose1d_out"],
    extra_cuda_cflags=["-O3"],
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
        reference = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=bias)
        self.weight = reference.weight
        self.bias = reference.bias
        self.stride = stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        batch, _, in_length = x.shape
        _, out_channels, kernel_size = self.weight.shape
        out_length = (
            (in_length - 1) * self.stride - 2 * self.padding + self.dilation * (kernel_size - 1) + 1
        )
        if out_length < 1:
            raise ValueError(f"an input of length {in_length} leaves no output")
        out = torch.empty((batch, out_channels, out_length), dtype=x.dtype, device=x.device)
        extension.conv_transpose1d_out(
            x.contiguous(),
            self.weight.contiguous(),
            out,
            self.stride,
            self.padding,
            self.dilation,
        )
        if self.bias is not None:
            out += self.bias[:, None]
        return out
