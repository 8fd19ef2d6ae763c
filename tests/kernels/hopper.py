"""Transposed 1-D convolution with Hopper's tensor cores: TMA, mbarriers and wgmma in TF32.

For an output position t, let t + padding = stride * j + r with 0 <= r < stride; r is the phase.
The output is a sum over all taps k for which stride divides r - k * dilation. Such a tap is
multiplied with the input at position j + (r - k * dilation) / stride. So each tap adds one product
of matrices to the outputs of a phase: weights (output by input channels) times inputs (input
channels by positions). The instruction wgmma requires TF32 operands whose summed dimension is
contiguous. Therefore inputs are rearranged to (batch, position, channel), and weights to (tap,
output channel, input channel).

A block computes 64 output channels by 64 positions. One of its warps loads tiles of 32 input
channels for one tap into a ring of four stages, and a warpgroup multiplies them. The copy engine
writes zeros for positions outside the input, and for channels beyond the last.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
torch::Tensor conv_transpose1d_hopper(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t in_channels, int64_t stride, int64_t padding, int64_t dilation);
"""

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int TILE = 64;   // output channels, and positions, of a block
constexpr int DEPTH = 32;  // input channels of a stage: 128 bytes, as wide as the swizzle
constexpr int STAGES = 4;
constexpr int CONSUMERS = 128;
constexpr int THREADS = CONSUMERS + 32;
constexpr uint32_t TILE_BYTES = TILE * DEPTH * sizeof(float);

struct Shared {
    float weights[STAGES][TILE][DEPTH];  // (output channel, input channel)
    float inputs[STAGES][TILE][DEPTH];   // (position, input channel)
    uint64_t full[STAGES], empty[STAGES];
};
// Dynamic shared memory need not start where the swizzle wants its tiles.
constexpr size_t ALIGNMENT = 1024;
constexpr size_t SHARED_BYTES = sizeof(Shared) + ALIGNMENT;

struct Sizes {
    int in_channels, out_channels, out_length;
    int kernel_size, stride, padding, dilation;
    int first;     // the first j of all
    int tap_step;  // between taps of one phase
};

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init_barrier(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
    uint32_t done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void load_box(void* to, const CUtensorMap* map, int x, int y, int z,
                                         uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)),
                    "r"(x), "r"(y), "r"(z) : "memory");
}

// A tile whose rows are 128 bytes, swizzled; eight rows follow each other every 1024 bytes.
__device__ __forceinline__ uint64_t matrix_descriptor(const void* tile) {
    constexpr uint64_t swizzle_128b = uint64_t(1) << 62, stride = uint64_t(1024 >> 4) << 32;
    return swizzle_128b | stride | uint64_t(1) << 16 | (shared_address(tile) & 0x3FFFF) >> 4;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

__device__ __forceinline__ void multiply_add(float (&d)[32], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1;"
        : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
        : "l"(a), "l"(b));
}

__global__ void __launch_bounds__(THREADS) conv_transpose1d_hopper_kernel(
    const __grid_constant__ CUtensorMap inputs,
    const __grid_constant__ CUtensorMap weights,
    const float* __restrict__ bias,
    float* __restrict__ output,
    const Sizes s)
{
    extern __shared__ unsigned char dynamic_shared[];
    const uint32_t offset = -shared_address(dynamic_shared) & (ALIGNMENT - 1);
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared + offset);

    const int batch = blockIdx.z / s.stride, phase = blockIdx.z % s.stride;
    const int out = blockIdx.y * TILE, j = s.first + blockIdx.x * TILE;
    int first_tap = 0;
    while (first_tap < s.tap_step && (phase - first_tap * s.dilation) % s.stride != 0) ++first_tap;
    const int taps = first_tap < s.tap_step && first_tap < s.kernel_size
                         ? (s.kernel_size - first_tap - 1) / s.tap_step + 1 : 0;
    const int depths = (s.in_channels + DEPTH - 1) / DEPTH;
    const int steps = taps * depths;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(&shared.full[stage], 1);
            init_barrier(&shared.empty[stage], CONSUMERS);
        }
        // The copy engine has to see them too.
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x > CONSUMERS) return;
        for (int step = 0; step < steps; ++step) {
            const int stage = step % STAGES, round = step / STAGES;
            const int tap = first_tap + step / depths * s.tap_step;
            const int channel = step % depths * DEPTH;
            wait(&shared.empty[stage], (round & 1) ^ 1);
            arrive_and_expect(&shared.full[stage], 2 * TILE_BYTES);
            load_box(shared.weights[stage], &weights, channel, out, tap, &shared.full[stage]);
            load_box(shared.inputs[stage], &inputs, channel,
                     j + (phase - tap * s.dilation) / s.stride, batch, &shared.full[stage]);
        }
        return;
    }

    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES, round = step / STAGES;
        wait(&shared.full[stage], round & 1);
        const uint64_t a = matrix_descriptor(shared.weights[stage]);
        const uint64_t b = matrix_descriptor(shared.inputs[stage]);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 8)
            // Descriptors count in 16 bytes.
            multiply_add(sums, a + depth * sizeof(float) / 16, b + depth * sizeof(float) / 16);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        arrive(&shared.empty[stage]);
    }

    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const int column = threadIdx.x % 4 * 2;
    output += int64_t(batch) * s.out_channels * s.out_length;
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int o = out + row + i / 2 % 2 * 8;
        const int t = (j + column + i / 4 * 8 + i % 2) * s.stride + phase - s.padding;
        if (o < s.out_channels && t >= 0 && t < s.out_length)
            output[int64_t(o) * s.out_length + t] =
                sums[i] + (bias == nullptr ? 0.0f : bias[o]);
    }
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

// The driver's function without linking to the driver.
Encode find_encode() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    C10_CUDA_CHECK(cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    TORCH_CHECK(found == cudaDriverEntryPointSuccess, "the driver has no tensor maps");
    return reinterpret_cast<Encode>(function);
}

// Boxes of 64 rows of 32 channels, of a tensor (z, y, channels) with rows of whole 16 bytes.
CUtensorMap tensor_map(const torch::Tensor& tensor, int64_t channels) {
    static const Encode encode = find_encode();
    const cuuint64_t y = tensor.size(1), z = tensor.size(0);
    const cuuint64_t row_bytes = tensor.size(2) * sizeof(float);
    const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(channels), y, z};
    const cuuint64_t strides[2] = {row_bytes, row_bytes * y};
    const cuuint32_t box[3] = {DEPTH, TILE, 1}, steps[3] = {1, 1, 1};
    alignas(64) CUtensorMap map;
    const CUresult result = encode(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, tensor.data_ptr<float>(), sizes, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled failed with ", int(result));
    return map;
}

int greatest_common_divisor(int a, int b) {
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

}  // namespace

torch::Tensor conv_transpose1d_hopper(
    const torch::Tensor& input, const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t in_channels, int64_t stride, int64_t padding, int64_t dilation)
{
    for (const auto& tensor : {input, weight}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 3 &&
                    tensor.scalar_type() == torch::kFloat32 && tensor.size(2) % 4 == 0,
                    "expected contiguous float32 CUDA tensors with rows of whole 16 bytes");
    }
    const int64_t batch = input.size(0), in_length = input.size(1);
    Sizes s;
    s.in_channels = in_channels;
    s.kernel_size = weight.size(0);
    s.out_channels = weight.size(1);
    s.stride = stride;
    s.padding = padding;
    s.dilation = dilation;
    s.out_length = (in_length - 1) * stride - 2 * padding + dilation * (s.kernel_size - 1) + 1;
    s.first = padding / stride;
    s.tap_step = stride / greatest_common_divisor(stride, dilation);
    TORCH_CHECK(s.out_length > 0, "an input of length ", in_length, " leaves no output");
    auto output = torch::empty({batch, s.out_channels, s.out_length}, input.options());

    const int last = (padding + s.out_length - 1) / stride;
    TORCH_CHECK(batch * stride < 65536, "too many batch elements");
    if (batch == 0) return output;
    const int position_tiles = (last - s.first) / TILE + 1;
    const dim3 grid(position_tiles, (s.out_channels + TILE - 1) / TILE, batch * stride);
    C10_CUDA_CHECK(cudaFuncSetAttribute(conv_transpose1d_hopper_kernel,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    conv_transpose1d_hopper_kernel<<<grid, THREADS, SHARED_BYTES,
                                     c10::cuda::getCurrentCUDAStream()>>>(
        tensor_map(input, in_channels), tensor_map(weight, in_channels),
        bias.has_value() ? bias->data_ptr<float>() : nullptr, output.data_ptr<float>(), s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}
"""

extension = load_inline(
    name="conv_transpose1d_hopper",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_hopper"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
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
        batch, in_channels, length = x.shape
        _, out_channels, kernel_size = self.weight.shape
        # The copy engine wants rows of whole 16-byte pieces.
        pitch = (in_channels + 3) // 4 * 4
        inputs = x.new_empty(batch, length, pitch)
        inputs[..., :in_channels] = x.transpose(1, 2)
        weights = x.new_empty(kernel_size, out_channels, pitch)
        weights[..., :in_channels] = self.weight.permute(2, 1, 0)
        return extension.conv_transpose1d_hopper(
            inputs,
            weights,
            self.bias,
            in_channels,
            self.stride,
            self.padding,
            self.dilation,
        )
