"""Transposed 1-D convolution as dot products that a warp sums up with shuffles.

A warp computes four neighbouring positions of one output channel. A term of a sum belongs to an
input channel and a tap, and the warp's lanes share the terms. Each lane then has a part of each of
the four sums, and shuffles add these parts up.

In the first steps, each lane has a partner. The lane gives the partner half of its sums, and adds
the parts that it receives to the other half. After three shuffles each lane has one sum, and three
more shuffles finish it. Four separate sums would take twenty.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_warps(
    torch::Tensor input, torch::Tensor weight, std::optional<torch::Tensor> bias,
    int64_t stride, int64_t padding, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

#define FULL_MASK 0xffffffffu

constexpr int WARPS = 8;
constexpr int OUTPUTS = 4;

// One sum of each lane goes to the partner, the other stays and gets what the partner gives.
__device__ __forceinline__ float exchange(float low, float high, int distance) {
    const bool keeps_high = threadIdx.x & distance;
    const float given = keeps_high ? low : high;
    const float kept = keeps_high ? high : low;
    return kept + __shfl_xor_sync(FULL_MASK, given, distance);
}

__global__ void conv_transpose1d_warps_kernel(
    const float* __restrict__ input,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ output,
    int64_t groups,
    int groups_of_row,
    int in_channels,
    int in_length,
    int out_channels,
    int out_length,
    int kernel_size,
    int stride,
    int padding,
    int dilation)
{
    const int lane = threadIdx.x % 32;
    const int64_t group = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (group >= groups) return;  // whole warps
    const int first = int(group % groups_of_row) * OUTPUTS;
    const int64_t row = group / groups_of_row;
    const int out_channel = int(row % out_channels);
    const float* x = input + row / out_channels * in_channels * in_length;

    float sums[OUTPUTS] = {};
    for (int term = lane; term < in_channels * kernel_size; term += 32) {
        const int channel = term / kernel_size, tap = term % kernel_size;
        const int64_t filter = int64_t(channel) * out_channels + out_channel;
        const float factor = weight[filter * kernel_size + tap];
        const float* from = x + int64_t(channel) * in_length;
        #pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) {
            const int position = first + i + padding - tap * dilation;
            if (position >= 0 && position % stride == 0 && position / stride < in_length)
                sums[i] += factor * from[position / stride];
        }
    }

    // Bit 4 of a lane's number tells which pair it has left, bit 3 which of the pair.
    const float low = exchange(sums[0], sums[2], 16);
    const float high = exchange(sums[1], sums[3], 16);
    float sum = exchange(low, high, 8);
    for (int distance = 4; distance > 0; distance /= 2)
        sum += __shfl_down_sync(FULL_MASK, sum, distance, 8);

    const int t = first + (lane >> 4) * 2 + (lane >> 3 & 1);
    if (lane % 8 == 0 && t < out_length)
        output[row * out_length + t] = sum + (bias != nullptr ? bias[out_channel] : 0.0f);
}

torch::Tensor conv_transpose1d_warps(
    torch::Tensor input, torch::Tensor weight, std::optional<torch::Tensor> bias,
    int64_t stride, int64_t padding, int64_t dilation)
{
    TORCH_CHECK(input.is_cuda() && input.scalar_type() == at::kFloat, "expected float32 on CUDA");
    input = input.contiguous();
    weight = weight.contiguous();
    const int64_t batch = input.size(0), in_length = input.size(2);
    const int64_t out_channels = weight.size(1), kernel_size = weight.size(2);
    const int64_t out_length =
        (in_length - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1;
    TORCH_CHECK(out_length > 0, "the output would be empty");
    auto output = torch::empty({batch, out_channels, out_length}, input.options());

    const int64_t groups_of_row = (out_length + OUTPUTS - 1) / OUTPUTS;
    const int64_t groups = batch * out_channels * groups_of_row;
    const int64_t blocks = (groups + WARPS - 1) / WARPS;
    TORCH_CHECK(blocks < int64_t(1) << 31, "too many outputs");
    if (blocks == 0) return output;
    conv_transpose1d_warps_kernel<<<blocks, WARPS * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        input.data_ptr<float>(), weight.data_ptr<float>(),
        bias.has_value() ? bias->data_ptr<float>() : nullptr, output.data_ptr<float>(),
        groups, groups_of_row, input.size(1), in_length, out_channels, out_length,
        kernel_size, stride, padding, dilation);
    C10_CUDA_CHECK(cudaGetLastError());
    return output;
}
"""

extension = load_inline(
    name="conv_transpose1d_warps",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_warps"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution; float32, forward only."""

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
        self.conv = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        conv = self.conv
        return extension.conv_transpose1d_warps(
            x, conv.weight, conv.bias, conv.stride[0], conv.padding[0], conv.dilation[0]
        )
