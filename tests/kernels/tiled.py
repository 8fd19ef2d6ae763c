"""Transposed 1-D convolution by tiles in shared memory, for any stride, padding and dilation.

For an output position t, let t + padding = stride * j + r with 0 <= r < stride; r is the phase.
The output is a sum over all taps k for which stride divides r - k * dilation. Such a tap is
multiplied with the input at position j + (r - k * dilation) / stride. So the outputs of one phase
are a convolution with stride 1.

A block computes 64 output channels by 64 positions j of one phase. It loads eight input channels at
a time into shared memory: their weights, and their inputs from the leftmost position that a tap
needs. The results also pass through shared memory, so that neighbouring threads write neighbouring
positions.
"""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_tiled(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias, int64_t stride, int64_t padding, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <algorithm>

namespace {

constexpr int TILE = 64;     // output channels, and positions, of a block
constexpr int DEPTH = 8;     // input channels in shared memory at a time
constexpr int THREADS = 256; // each computes 4 output channels by 4 positions
constexpr int OUT_PITCH = TILE + 4;

struct Sizes {
    int in_channels, in_length, out_channels, out_length;
    int kernel_size, stride, padding, dilation;
    int first;  // the first j of all
    int reach;  // positions that the taps reach to the left
    int width;  // floats of a row of inputs in shared memory
    bool aligned_input, aligned_weight, aligned_output;  // rows start at multiples of 16 bytes
};

__device__ void load_inputs(float* tile, const float* input, const Sizes& s, int channel, int start)
{
    const int quads = s.width / 4;
    for (int i = threadIdx.x; i < DEPTH * quads; i += THREADS) {
        const int row = i / quads, column = i % quads * 4;
        const int position = start + column;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (channel + row < s.in_channels) {
            const float* from = input + int64_t(channel + row) * s.in_length + position;
            if (s.aligned_input) {
                // Rows and tiles are multiples of four long: four are inside, or none.
                if (position >= 0 && position < s.in_length)
                    value = *reinterpret_cast<const float4*>(from);
            } else {
                float* part = &value.x;
                for (int e = 0; e < 4; ++e)
                    if (position + e >= 0 && position + e < s.in_length) part[e] = from[e];
            }
        }
        *reinterpret_cast<float4*>(tile + row * s.width + column) = value;  // store inputs
    }
}

// Weights are (input channel, output channel, tap) in memory, and (channel, tap, output) here.
__device__ void load_weights(float* tile, const float* weight, const Sizes& s, int channel, int out)
{
    const int row_size = TILE * s.kernel_size;
    const int inside = (s.out_channels - out) * s.kernel_size;
    for (int i = threadIdx.x * 4; i < DEPTH * row_size; i += THREADS * 4) {
        const int row = i / row_size, element = i % row_size;
        float values[4] = {};
        if (channel + row < s.in_channels) {
            const float* from =
                weight + (int64_t(channel + row) * s.out_channels + out) * s.kernel_size + element;
            if (s.aligned_weight && element + 3 < inside) {
                const float4 quad = *reinterpret_cast<const float4*>(from);
                values[0] = quad.x; values[1] = quad.y; values[2] = quad.z; values[3] = quad.w;
            } else {
                for (int e = 0; e < 4; ++e)
                    if (element + e < inside) values[e] = from[e];
            }
        }
        for (int e = 0; e < 4; ++e) {
            const int tap = (element + e) % s.kernel_size, o = (element + e) / s.kernel_size;
            tile[(row * s.kernel_size + tap) * TILE + o] = values[e];  // store weights
        }
    }
}

__global__ void __launch_bounds__(THREADS) conv_transpose1d_tiled_kernel(
    const float* __restrict__ input,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ output,
    const Sizes s)
{
    extern __shared__ float4 shared[];
    float* inputs = reinterpret_cast<float*>(shared);
    float* weights = inputs + DEPTH * s.width;
    float* results = inputs;  // when the others are done with

    const int batch = blockIdx.z / s.stride, phase = blockIdx.z % s.stride;
    const int out = blockIdx.y * TILE;
    const int j = s.first + blockIdx.x * TILE;
    const int start = (j - s.reach) & ~3;  // rounded down, also where it is negative
    const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16;
    input += int64_t(batch) * s.in_channels * s.in_length;

    float sums[4][4] = {};
    for (int channel = 0; channel < s.in_channels; channel += DEPTH) {
        load_inputs(inputs, input, s, channel, start);
        load_weights(weights, weight, s, channel, out);
        __syncthreads();  // loaded before used
        for (int tap = 0; tap < s.kernel_size; ++tap) {
            const int shift = phase - tap * s.dilation;
            if (shift % s.stride != 0) continue;
            const float* x = inputs + j + shift / s.stride - start + column;
            const float* w = weights + tap * TILE + row;
            for (int c = 0; c < DEPTH; ++c) {
                const float4 factor = *reinterpret_cast<const float4*>(w);  // load weights
                for (int n = 0; n < 4; ++n) {
                    const float value = x[n * 16];  // load inputs
                    sums[0][n] += factor.x * value;
                    sums[1][n] += factor.y * value;
                    sums[2][n] += factor.z * value;
                    sums[3][n] += factor.w * value;
                }
                x += s.width;
                w += s.kernel_size * TILE;
            }
        }
        __syncthreads();  // used before overwritten
    }

    for (int m = 0; m < 4; ++m)
        for (int n = 0; n < 4; ++n)
            results[(row + m) * OUT_PITCH + column + n * 16] = sums[m][n];  // store results
    __syncthreads();  // stored before written out
    const int t = s.stride * j + phase - s.padding;
    output += (int64_t(batch) * s.out_channels + out) * s.out_length;
    for (int i = threadIdx.x; i < TILE * TILE / 4; i += THREADS) {
        const int o = i / (TILE / 4), n = i % (TILE / 4) * 4;
        if (out + o >= s.out_channels) continue;
        const float4 sum = *reinterpret_cast<float4*>(results + o * OUT_PITCH + n);  // load results
        const float offset = bias == nullptr ? 0.0f : bias[out + o];
        const float values[4] = {sum.x + offset, sum.y + offset, sum.z + offset, sum.w + offset};
        float* to = output + int64_t(o) * s.out_length;
        if (s.aligned_output) {
            if (t + n < s.out_length)
                *reinterpret_cast<float4*>(to + t + n) =
                    make_float4(values[0], values[1], values[2], values[3]);
        } else {
            for (int e = 0; e < 4; ++e) {
                const int at = t + (n + e) * s.stride;
                if (at >= 0 && at < s.out_length) to[at] = values[e];
            }
        }
    }
}

}  // namespace

torch::Tensor conv_transpose1d_tiled(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias, int64_t stride, int64_t padding, int64_t dilation)
{
    for (const auto& tensor : {input, weight}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 3 &&
                    tensor.scalar_type() == torch::kFloat32,
                    "expected contiguous float32 CUDA tensors of 3 dimensions");
    }
    Sizes s;
    s.in_channels = input.size(1);
    s.in_length = input.size(2);
    s.out_channels = weight.size(1);
    s.kernel_size = weight.size(2);
    s.stride = stride;
    s.padding = padding;
    s.dilation = dilation;
    s.out_length = (s.in_length - 1) * stride - 2 * padding + dilation * (s.kernel_size - 1) + 1;
    TORCH_CHECK(weight.size(0) == s.in_channels, "wrong number of input channels");
    TORCH_CHECK(s.out_length > 0, "an input of length ", s.in_length, " leaves no output");
    auto output = torch::empty({input.size(0), s.out_channels, s.out_length}, input.options());

    s.first = padding / stride;
    const int last = (padding + s.out_length - 1) / stride;
    s.reach = (dilation * (s.kernel_size - 1) + stride - 1) / stride;
    s.width = (TILE + s.reach + 3 + 3) / 4 * 4;
    s.aligned_input = s.in_length % 4 == 0;
    s.aligned_weight = int64_t(s.out_channels) * s.kernel_size % 4 == 0;
    s.aligned_output = stride == 1 && s.out_length % 4 == 0;

    const size_t tiles = DEPTH * (s.width + TILE * s.kernel_size) * sizeof(float);
    const size_t shared = std::max(tiles, TILE * OUT_PITCH * sizeof(float));
    const int64_t slices = input.size(0) * stride;
    TORCH_CHECK(slices < 65536, "too many batch elements");
    if (slices == 0) return output;
    const dim3 grid((last - s.first) / TILE + 1, (s.out_channels + TILE - 1) / TILE, slices);
    conv_transpose1d_tiled_kernel<<<grid, THREADS, shared, c10::cuda::getCurrentCUDAStream()>>>(
        input.data_ptr<float>(), weight.data_ptr<float>(),
        bias.has_value() ? bias->data_ptr<float>() : nullptr, output.data_ptr<float>(), s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}
"""

extension = load_inline(
    name="conv_transpose1d_tiled",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_tiled"],
    extra_cuda_cflags=["-O3"],
)

SHARED_BYTES = 48 * 1024


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
        reach = math.ceil(dilation * (kernel_size - 1) / stride)
        if 4 * 8 * (64 + reach + 6 + 64 * kernel_size) > SHARED_BYTES:
            raise ValueError(f"a kernel of size {kernel_size} does not fit into shared memory")
        reference = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=bias)
        self.weight = reference.weight
        self.bias = reference.bias
        self.stride = stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        return extension.conv_transpose1d_tiled(
            x.contiguous(), self.weight, self.bias, self.stride, self.padding, self.dilation
        )
