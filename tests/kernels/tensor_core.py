"""Transposed 1-D convolution on tensor cores: cp.async, ldmatrix and mma.sync in TF32.

For an output position t, let t + padding = stride * j + r with 0 <= r < stride; r is the phase.
The output is a sum over all taps k for which stride divides r - k * dilation. Such a tap is
multiplied with the input at position j + (r - k * dilation) / stride. So each tap adds one product
of matrices to the outputs of a phase: weights (output by input channels) times inputs (input
channels by positions).

A block of four warps computes 64 output channels by 64 positions. A pipeline of three stages loads
16 input channels for one tap at a time. In shared memory, zeros stand for positions outside the
input and for channels beyond the last.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_tf32(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t stride, int64_t padding, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kTile = 64;       // output channels, and positions, of a block
constexpr int kDepth = 16;      // input channels of a stage
constexpr int kStages = 3;
constexpr int kThreads = 128;
constexpr int kWeightPitch = kDepth + 4;  // rows that ldmatrix reads together lie in other banks
constexpr int kInputPitch = kTile + 8;    // so do the four rows of a fragment

struct Stage {
    float weights[kTile][kWeightPitch];  // (output channel, input channel)
    float inputs[kDepth][kInputPitch];   // (input channel, position)
};

struct Problem {
    const float* input;   // (batch, in_channels, in_length)
    const float* weight;  // (kernel_size, out_channels, weight_pitch), zeros behind in_channels
    const float* bias;
    float* output;
    int in_channels, in_length, out_channels, out_length;
    int kernel_size, stride, padding, dilation;
    int weight_pitch;
    int first;     // the first j of all
    int tap_step;  // between taps of one phase
};

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, or zeros. A copy of nothing still needs a source that is aligned.
__device__ __forceinline__ void copy16(float* to, const float* from, bool is_inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy4(float* to, const float* from, bool is_inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 4 : 0) : "memory");
}

__device__ __forceinline__ uint32_t to_tf32(uint32_t bits) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

__device__ void fetch(Stage& stage, const Problem& p, const float* input, int tap, int channel,
                      int out, int position) {
    const float* weights = p.weight + (int64_t(tap) * p.out_channels + out) * p.weight_pitch;
    for (int i = threadIdx.x; i < kTile * kDepth / 4; i += kThreads) {
        const int row = i / (kDepth / 4), column = i % (kDepth / 4) * 4;
        const bool inside = out + row < p.out_channels && channel + column < p.weight_pitch;
        const float* from = weights + int64_t(row) * p.weight_pitch + channel + column;
        copy16(&stage.weights[row][column], inside ? from : p.weight, inside);
    }
    if (position % 4 == 0 && p.in_length % 4 == 0) {
        for (int i = threadIdx.x; i < kDepth * kTile / 4; i += kThreads) {
            const int row = i / (kTile / 4), column = i % (kTile / 4) * 4;
            const int at = position + column;
            const bool inside = channel + row < p.in_channels && at >= 0 && at < p.in_length;
            const float* from = input + int64_t(channel + row) * p.in_length + at;
            copy16(&stage.inputs[row][column], inside ? from : p.input, inside);
        }
    } else {
        for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
            const int row = i / kTile, column = i % kTile;
            const int at = position + column;
            const bool inside = channel + row < p.in_channels && at >= 0 && at < p.in_length;
            const float* from = input + int64_t(channel + row) * p.in_length + at;
            copy4(&stage.inputs[row][column], inside ? from : p.input, inside);
        }
    }
}

__global__ void __launch_bounds__(kThreads) conv_transpose1d_tf32_kernel(const Problem p) {
    __shared__ __align__(16) Stage stages[kStages];
    const int batch = blockIdx.z / p.stride, phase = blockIdx.z % p.stride;
    const int out = blockIdx.y * kTile, j = p.first + blockIdx.x * kTile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    const float* input = p.input + int64_t(batch) * p.in_channels * p.in_length;

    int first_tap = 0;
    while (first_tap < p.tap_step && (phase - first_tap * p.dilation) % p.stride != 0) ++first_tap;
    const int taps = first_tap < p.tap_step && first_tap < p.kernel_size
                         ? (p.kernel_size - first_tap - 1) / p.tap_step + 1 : 0;
    const int depths = (p.in_channels + kDepth - 1) / kDepth;
    const int steps = taps * depths;

    auto fetch_step = [&](int step) {
        if (step < steps) {
            const int tap = first_tap + step / depths * p.tap_step;
            fetch(stages[step % kStages], p, input, tap, step % depths * kDepth, out,
                  j + (phase - tap * p.dilation) / p.stride);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    float sums[2][4][4] = {};
    for (int step = 0; step < kStages - 1; ++step) fetch_step(step);
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" :: "n"(kStages - 2) : "memory");
        __syncthreads();  // everybody's copies are there, and the stage before is free
        fetch_step(step + kStages - 1);
        const Stage& stage = stages[step % kStages];
        #pragma unroll
        for (int depth = 0; depth < kDepth; depth += 8) {
            uint32_t a[2][4], b[4][2];
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                const int row = warp_row + m * 16 + lane % 16, column = depth + lane / 16 * 4;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3])
                             : "r"(shared_address(&stage.weights[row][column])) : "memory");
                for (int r = 0; r < 4; ++r) a[m][r] = to_tf32(a[m][r]);
            }
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                for (int r = 0; r < 2; ++r)
                    b[n][r] = to_tf32(__float_as_uint(
                        stage.inputs[depth + lane % 4 + r * 4][warp_column + n * 8 + lane / 4]));
            #pragma unroll
            for (int m = 0; m < 2; ++m)
                for (int n = 0; n < 4; ++n)
                    asm volatile(
                        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(sums[m][n][0]), "+f"(sums[m][n][1]), "+f"(sums[m][n][2]),
                          "+f"(sums[m][n][3])
                        : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]),
                          "r"(b[n][0]), "r"(b[n][1]));
        }
    }

    float* output = p.output + int64_t(batch) * p.out_channels * p.out_length;
    #pragma unroll
    for (int m = 0; m < 2; ++m)
        for (int n = 0; n < 4; ++n)
            for (int r = 0; r < 4; ++r) {
                const int o = out + warp_row + m * 16 + lane / 4 + r / 2 * 8;
                const int place = j + warp_column + n * 8 + lane % 4 * 2 + r % 2;
                const int t = place * p.stride + phase - p.padding;
                if (o < p.out_channels && t >= 0 && t < p.out_length)
                    output[int64_t(o) * p.out_length + t] =
                        sums[m][n][r] + (p.bias == nullptr ? 0.0f : p.bias[o]);
            }
}

static int greatest_common_divisor(int a, int b) {
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

torch::Tensor conv_transpose1d_tf32(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t stride, int64_t padding, int64_t dilation) {
    TORCH_CHECK(input.is_cuda() && input.is_contiguous() && input.scalar_type() == torch::kFloat32,
                "expected a contiguous float32 CUDA tensor");
    TORCH_CHECK(weight.is_contiguous() && weight.size(2) % 4 == 0, "expected arranged weights");
    Problem p;
    p.input = input.data_ptr<float>();
    p.weight = weight.data_ptr<float>();
    p.bias = bias.has_value() ? bias->data_ptr<float>() : nullptr;
    p.in_channels = input.size(1);
    p.in_length = input.size(2);
    p.kernel_size = weight.size(0);
    p.out_channels = weight.size(1);
    p.weight_pitch = weight.size(2);
    p.stride = stride;
    p.padding = padding;
    p.dilation = dilation;
    p.out_length = (p.in_length - 1) * stride - 2 * padding + dilation * (p.kernel_size - 1) + 1;
    p.first = padding / stride;
    p.tap_step = stride / greatest_common_divisor(stride, dilation);
    TORCH_CHECK(p.out_length > 0, "an input of length ", p.in_length, " leaves no output");
    auto output = torch::empty({input.size(0), p.out_channels, p.out_length}, input.options());
    p.output = output.data_ptr<float>();

    const int last = (padding + p.out_length - 1) / stride;
    const int64_t slices = input.size(0) * stride;
    TORCH_CHECK(slices < 65536, "too many batch elements");
    if (slices == 0) return output;
    const dim3 grid((last - p.first) / kTile + 1, (p.out_channels + kTile - 1) / kTile, slices);
    conv_transpose1d_tf32_kernel<<<grid, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}
"""

extension = load_inline(
    name="conv_transpose1d_tf32",
    cpp_sources=[cpp_source],
    cuda_sources=[cuda_source],
    functions=["conv_transpose1d_tf32"],
    extra_cuda_cflags=["-O3", "-std=c++20"],
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution; float32 in and out, products in TF32, forward only."""

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
        in_channels, out_channels, kernel_size = self.weight.shape
        # By tap, with rows of whole 16-byte pieces.
        pitch = (in_channels + 3) // 4 * 4
        arranged = self.weight.new_zeros(kernel_size, out_channels, pitch)
        arranged[..., :in_channels] = self.weight.permute(2, 1, 0)
        return extension.conv_transpose1d_tf32(
            x.contiguous(), arranged, self.bias, self.stride, self.padding, self.dilation
        )
