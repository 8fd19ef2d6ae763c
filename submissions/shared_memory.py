"""Transposed 1-D convolution by tiles in shared memory, in float32, for any parameters and any GPU.

The idea. Let q = t + padding = stride * j + phase. Output t has the taps k for which the stride
divides phase - k * dilation, the same ones for all j: so the outputs of one phase are an ordinary
convolution of stride 1, with every `tap_step`th tap, each `shift` positions left of the one before.
No test for divisibility is left inside, and no multiplication by zero.

The tiling. A block computes 64 output channels by 256 positions j of one phase and one batch
element, from 8 input channels at a time, whose weights and inputs (with what the taps reach to the
left) lie in shared memory. A thread keeps 16 output channels by 4 positions in registers: for each
channel and tap it reads 16 weights (4 loads, all lanes of a warp the same) and 4 inputs (lanes side
by side), and does 64 multiply-adds. Neighbouring lanes store neighbouring positions.

Bytes and operations, each moved or done once, and the time that a copy of those bytes (4246 GB/s)
and the float32 pipes (67 TFLOP/s, the data sheet's) would take; the floor is the larger:

                               bytes     operations    copied    multiplied    measured
    conv_transpose1d           4.295 GB  412.3 G       1.01 ms   6.15 ms       14.63 ms
    ..._dilated                1.611 GB   85.9 G       0.38 ms   1.28 ms        2.84 ms
    ..._strided_dilated        1.342 GB   25.8 G       0.32 ms   0.38 ms        1.77 ms

Measured by the harness on an NVIDIA H200, 2026-11-22 (results/; only this account has changed
since). Inputs are read once for every 64 output channels, apart from the taps' reach; outputs are
written once. Nothing is allocated but the output.

What limits it. By the tiling it should be the float32 pipes: 64 multiply-adds need 8 passes through
shared memory, and four warps issue side by side, so that shared memory is half busy when the pipes
are full. They are busy for 42, 45 and 22 % of the time; what they wait for was not profiled. With a
stride, blocks of different phases write every other float of the same sectors.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d(
    const torch::Tensor& x, const torch::Tensor& weight, const std::optional<torch::Tensor>& bias,
    int64_t stride, int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>

#include <cstdint>
#include <numeric>

namespace {

constexpr int OUTPUTS = 64;     // output channels of a block
constexpr int POSITIONS = 256;  // positions of a block
constexpr int CHANNELS = 8;     // input channels in shared memory at a time
constexpr int THREADS = 256;
constexpr int THREAD_OUTPUTS = 16;
constexpr int THREAD_POSITIONS = 4;
constexpr int WARPS_ACROSS = OUTPUTS / THREAD_OUTPUTS;
constexpr int SHARED_BYTES = 48 * 1024;  // what every GPU has, without asking for more

struct Convolution {
    const float* x;       // (batch, groups * group_inputs, length)
    const float* weight;  // (groups * group_inputs, group_outputs, taps)
    const float* bias;    // (groups * group_outputs), or null
    float* y;             // (batch, groups * group_outputs, out_length)
    int group_inputs, group_outputs, groups, length, out_length;
    int taps, stride, padding, dilation;
    int tap_step;      // between the taps of one phase
    int shift;         // how far left of one such tap's input the next one's is
    int taps_at_once;  // whose weights and inputs fit shared memory
    int width;         // inputs of a channel in shared memory
    int first;         // the first j of all
};

// To shared memory: for each input channel `c.width` positions from `start` on.
__device__ void load_inputs(float* inputs, const float* x, int channels, int start,
                            const Convolution& c) {
    for (int channel = threadIdx.x / 32; channel < CHANNELS; channel += THREADS / 32)
        for (int column = threadIdx.x % 32; column < c.width; column += 32) {
            const int position = start + column;
            const bool inside = channel < channels && position >= 0 && position < c.length;
            inputs[channel * c.width + column] =
                inside ? x[int64_t(channel) * c.length + position] : 0.0f;
        }
}

// To shared memory: weights by (input channel, tap, output channel).
__device__ void load_weights(float* weights, const float* weight, int channels, int outputs,
                             int first_tap, int taps, const Convolution& c) {
    for (int i = threadIdx.x; i < CHANNELS * c.taps_at_once * OUTPUTS; i += THREADS) {
        const int output = i % OUTPUTS, tap = i / OUTPUTS % c.taps_at_once;
        const int channel = i / OUTPUTS / c.taps_at_once;
        const bool inside = output < outputs && tap < taps && channel < channels;
        const int64_t row = int64_t(channel) * c.group_outputs + output;
        weights[i] = inside ? weight[row * c.taps + first_tap + tap * c.tap_step] : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS, 2) conv_transpose1d_kernel(const Convolution c) {
    extern __shared__ float4 shared[];
    float* const weights = reinterpret_cast<float*>(shared);
    float* const inputs = weights + CHANNELS * c.taps_at_once * OUTPUTS;

    const int batch = blockIdx.z / c.stride, phase = blockIdx.z % c.stride;
    const int tiles = (c.group_outputs + OUTPUTS - 1) / OUTPUTS;  // of a group
    const int group = blockIdx.y / tiles, first_output = blockIdx.y % tiles * OUTPUTS;
    const int outputs = min(OUTPUTS, c.group_outputs - first_output);
    const int j = c.first + blockIdx.x * POSITIONS;
    const float* x = c.x + (int64_t(batch) * c.groups + group) * c.group_inputs * c.length;
    const float* weight = c.weight
        + (int64_t(group) * c.group_inputs * c.group_outputs + first_output) * c.taps;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp % WARPS_ACROSS * THREAD_OUTPUTS;
    const int column = warp / WARPS_ACROSS * (32 * THREAD_POSITIONS) + lane;

    int first_tap = 0;
    while (first_tap < c.tap_step && (phase - int64_t(first_tap) * c.dilation) % c.stride != 0)
        ++first_tap;
    const int last_tap = first_tap < c.tap_step ? c.taps : 0;  // some phases have none

    float sums[THREAD_OUTPUTS][THREAD_POSITIONS] = {};
    for (int tap = first_tap; tap < last_tap; tap += c.taps_at_once * c.tap_step) {
        const int taps = min(c.taps_at_once, (last_tap - tap - 1) / c.tap_step + 1);
        // The last tap's input of the first position.
        const int start = j + (phase - tap * c.dilation) / c.stride - (taps - 1) * c.shift;
        for (int channel = 0; channel < c.group_inputs; channel += CHANNELS) {
            const int channels = c.group_inputs - channel;
            load_inputs(inputs, x + int64_t(channel) * c.length, channels, start, c);
            load_weights(weights, weight + int64_t(channel) * c.group_outputs * c.taps, channels,
                         outputs, tap, taps, c);
            __syncthreads();
            for (int inner = 0; inner < CHANNELS; ++inner) {
                const float* w = weights + inner * c.taps_at_once * OUTPUTS + row;
                const float* in = inputs + inner * c.width + (taps - 1) * c.shift + column;
                for (int i = 0; i < taps; ++i, w += OUTPUTS, in -= c.shift) {
                    float factors[THREAD_OUTPUTS];
                    #pragma unroll
                    for (int m = 0; m < THREAD_OUTPUTS; m += 4)
                        *reinterpret_cast<float4*>(factors + m) =
                            *reinterpret_cast<const float4*>(w + m);
                    #pragma unroll
                    for (int n = 0; n < THREAD_POSITIONS; ++n) {
                        const float value = in[32 * n];
                        #pragma unroll
                        for (int m = 0; m < THREAD_OUTPUTS; ++m) sums[m][n] += factors[m] * value;
                    }
                }
            }
            __syncthreads();
        }
    }

    const int64_t first_row = (int64_t(batch) * c.groups + group) * c.group_outputs + first_output;
    #pragma unroll
    for (int m = 0; m < THREAD_OUTPUTS; ++m) {
        if (row + m >= outputs) break;
        const float bias =
            c.bias == nullptr ? 0.0f : c.bias[group * c.group_outputs + first_output + row + m];
        #pragma unroll
        for (int n = 0; n < THREAD_POSITIONS; ++n) {
            const int64_t q = int64_t(j + column + 32 * n) * c.stride + phase;
            const int64_t t = q - c.padding;
            if (t >= 0 && t < c.out_length)
                c.y[(first_row + row + m) * c.out_length + t] = sums[m][n] + bias;
        }
    }
}

int64_t shared_bytes(int64_t taps_at_once, int64_t width) {
    return CHANNELS * (taps_at_once * OUTPUTS + width) * int64_t(sizeof(float));
}

}  // namespace

torch::Tensor conv_transpose1d(
    const torch::Tensor& x, const torch::Tensor& weight, const std::optional<torch::Tensor>& bias,
    int64_t stride, int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation) {
    for (const auto& tensor : {x, weight})
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 3 &&
                    tensor.scalar_type() == torch::kFloat32,
                    "expected contiguous float32 CUDA tensors of three dimensions");
    TORCH_CHECK(x.size(1) == weight.size(0), "expected ", weight.size(0), " input channels");
    const int64_t reach = dilation * (weight.size(2) - 1);
    const int64_t out_length = (x.size(2) - 1) * stride - 2 * padding + reach + output_padding + 1;
    TORCH_CHECK(out_length > 0, "an input of length ", x.size(2), " leaves no output");
    TORCH_CHECK(out_length + padding + reach < (int64_t(1) << 30), "too long an axis");

    const c10::DeviceGuard guard(x.device());
    auto y = torch::empty({x.size(0), weight.size(1) * groups, out_length}, x.options());
    if (y.numel() == 0) return y;
    Convolution c{x.data_ptr<float>(), weight.data_ptr<float>(),
                  bias.has_value() ? bias->data_ptr<float>() : nullptr, y.data_ptr<float>()};
    c.group_inputs = x.size(1) / groups;
    c.group_outputs = weight.size(1);
    c.groups = groups;
    c.length = x.size(2);
    c.out_length = out_length;
    c.taps = weight.size(2);
    c.stride = stride;
    c.padding = padding;
    c.dilation = dilation;
    c.tap_step = stride / std::gcd(stride, dilation);
    c.shift = dilation * c.tap_step / stride;
    c.first = padding / stride;
    c.taps_at_once = (c.taps - 1) / c.tap_step + 1;
    c.width = POSITIONS;
    const int64_t width = POSITIONS + int64_t(c.taps_at_once - 1) * c.shift;
    if (shared_bytes(c.taps_at_once, width) <= SHARED_BYTES)
        c.width = width;
    else
        c.taps_at_once = 1;

    const int64_t positions = (out_length - 1 + padding) / stride - c.first + 1;
    const int64_t rows = groups * ((c.group_outputs + OUTPUTS - 1) / OUTPUTS);
    const int64_t slices = x.size(0) * stride;
    TORCH_CHECK(rows < 65536 && slices < 65536, "too many groups, or too large a batch or stride");
    const dim3 grid((positions - 1) / POSITIONS + 1, rows, slices);
    conv_transpose1d_kernel<<<grid, THREADS, shared_bytes(c.taps_at_once, c.width),
                              at::cuda::getCurrentCUDAStream()>>>(c);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

extension = load_inline(
    name="conv_transpose1d_shared_memory",
    cpp_sources=[cpp_source],
    cuda_sources=[cuda_source],
    functions=["conv_transpose1d"],
    extra_cuda_cflags=["-O3", "-std=c++20"],
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution with nn.ConvTranspose1d's parameters; float32, forward only."""

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
        dilation: int = 1,
    ) -> None:
        super().__init__()
        reference = nn.ConvTranspose1d(
            in_channels, out_channels, kernel_size, groups=groups, bias=bias
        )
        self.weight = reference.weight
        self.bias = reference.bias
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.groups = groups
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        return extension.conv_transpose1d(
            x.contiguous(),
            self.weight.contiguous(),
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )
