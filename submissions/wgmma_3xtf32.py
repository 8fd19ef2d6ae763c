"""Transposed 1-D convolution in float32 on Hopper's tensor cores: three shapes fast, any right.

The idea. Tensor cores take TF32 operands, 11 bits of float32's 24. Each number is split into high =
TF32(v) and low = TF32(v - high), and a product of two of them becomes three: low * high + high *
low + high * high, and loses at most 3 * 2^-22 of it (3xTF32). The rest is as in wgmma_tf32: each
tap is a matrix product of weights and a window of x, and all taps use the same window. With stride
2 and dilation 2, every other output is such a convolution of dilation 1.

The tiling. One block for each multiprocessor, which walks over tiles of 64 output channels by 128
or 256 positions. Both parts of its weights stay in shared memory; x comes through rings of stages
that mbarriers guard. One warpgroup loads, two multiply, each its own tiles. How x gets to wgmma is
done in two ways, by what was measured:

- 128 channels (conv_transpose1d): x is wgmma's first operand, from registers; rows of the product
  are positions. Bulk copies (TMA) of 8 channels bring x into shared memory as it lies, into a ring
  for each multiplying warpgroup. A thread has four positions side by side, and the two left of
  them, for two channels: all its operands for three taps. It splits them in registers, one part
  while wgmma has the other, so that shared memory has x once. Of the output channels a block has
  the even or the odd ones, since both parts of all weights do not fit; x comes from memory once,
  the second block's reading from the L2 cache. Tiles of odd channels begin two outputs further
  left: so that a thread's four sums are 16 aligned bytes of y in every row.
- 32 channels (the other two): the loading warpgroup takes 16 channels at a time through registers,
  where it splits and turns them into rows of 4 channels; rows of the product are output channels. A
  tap's start address in wgmma's matrix descriptor is `dilation` rows further.

Bytes and operations (three for one), and the time that a copy of those bytes (4246 GB/s) and the
tensor cores (495 TFLOP/s, the data sheet's) would take; the floor is the larger:

                               bytes     operations    copied    multiplied    measured
    conv_transpose1d           4.295 GB  1236.9 G      1.01 ms   2.50 ms       3.230 ms
    ..._dilated                1.611 GB   257.7 G      0.38 ms   0.52 ms       0.643 ms
    ..._strided_dilated        1.342 GB    77.3 G      0.32 ms   0.16 ms       0.412 ms

Measured: medians of 80 calls with a cold L2 cache, NVIDIA H200, a bench of raw kernel launches,
2026-11-22. With x through registers as in the second way, the first took 4.742 ms in the same run;
the other two take 0.740 and 0.426 ms or more in the first way. cuDNN without TF32 takes 15.3, 4.3
and 2.9 ms (results/, the harness's own measure).

What limits it now, by leaving out one part at a time and by Nsight Compute:

- conv_transpose1d: the tensor cores. A variant of 3.313 ms keeps them 87 % busy; it takes 3.28 ms
  when it loads nothing, 3.08 when it stores nothing, 1.67 when it multiplies nothing, and 3.09 when
  it only multiplies: 401 TFLOP/s.
- dilated: with 16 channels on their way it takes 0.61 ms without loads, 0.60 without stores, 0.57
  without multiplications: no part hides another well.
- strided_dilated: memory. It takes 0.41 ms of 0.42 when it multiplies nothing, and 0.26 when it
  stores nothing: four fifths of the bytes are y's.

The next step is wgmma_tf32's: y by whole, aligned lines of the L2 cache.

Accuracy. Tensor cores truncate when they add, so that each of the steps (8 channels of one tap and
product: 144, 60 and 36) may lose 2 u = 2^-23 of the sum. With values all positive the worst error
of conv_transpose1d was 0.26 of its bound, element by element; those of the others were 47 u and 29
u of the sum of absolute terms, where an output that has all taps is allowed 172 u and 108 u. The
same sums in the same order every time.

Shapes other than the three go to a plain float32 kernel, a thread for each output; so does
conv_transpose1d where bulk copies are not allowed: a length or padding that is no multiple of 4.
Needs compute capability 9.0 (sm_90a).

docs/kernels.md tells the way here, and what the other plans took.
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
#include <cuda.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int GROUP = 128;         // threads of a warpgroup: they multiply, or load, together
constexpr int CHUNK_CHANNELS = 4;  // 16 bytes: what wgmma takes as one piece of a row
constexpr int STEP_CHUNKS = 2;     // wgmma multiplies 8 channels at a time
constexpr int STEP_CHANNELS = STEP_CHUNKS * CHUNK_CHANNELS;
constexpr int CONSUMERS = 2;  // warpgroups that multiply, each its own tiles; one more loads
constexpr int THREADS = (CONSUMERS + 1) * GROUP;
constexpr int BLOCK_OUTPUTS = 64;  // output channels of a block
constexpr int PARTS = 2;           // of a number: its TF32, and what that leaves

struct Problem {
    const float* x;       // (batch, CHANNELS, length)
    const float* weight;  // (CHANNELS, OUTPUTS, TAPS)
    const float* bias;    // (OUTPUTS), or null
    float* y;             // (batch, OUTPUTS, out_length)
    int batch, length, out_length, padding;
    int tiles_per_row;
    int tiles;
};

// What the kernel for few channels is compiled for. SHIFT is how many positions of x lie between
// two taps; SPREAD is the stride: 1, or 2 with an even dilation, where every other output has no
// term.
template <int CHANNELS_, int OUTPUTS_, int TAPS_, int SHIFT_, int SPREAD_, int STAGES_, int AHEAD_>
struct Plan {
    static constexpr int CHANNELS = CHANNELS_, OUTPUTS = OUTPUTS_, TAPS = TAPS_, SHIFT = SHIFT_;
    static constexpr int SPREAD = SPREAD_;
    static constexpr int STAGES = STAGES_;
    static constexpr int AHEAD = AHEAD_;  // stages on their way in registers

    static constexpr int POSITIONS = 256;  // of a tile: the columns of wgmma
    static constexpr int STAGE_CHANNELS = 16;
    static constexpr int HALO = SHIFT * (TAPS - 1);
    static constexpr int WINDOW = POSITIONS + HALO;  // positions of x that a tile needs
    static constexpr int CHUNKS = CHANNELS / CHUNK_CHANNELS;
    static constexpr int STAGE_CHUNKS = STAGE_CHANNELS / CHUNK_CHANNELS;
    static constexpr int STEPS = CHANNELS / STAGE_CHANNELS;             // stages of a tile
    static constexpr int WEIGHT_PART = TAPS * CHUNKS * BLOCK_OUTPUTS;  // in float4
    static constexpr int STAGE_PART = STAGE_CHUNKS * WINDOW;
    static constexpr int SHARED_BYTES =
        16 * PARTS * (WEIGHT_PART + STAGES * STAGE_PART) + 8 * (2 * STAGES + CONSUMERS);
    static_assert(HALO <= 32 && CHANNELS % STAGE_CHANNELS == 0);
    static_assert(OUTPUTS == BLOCK_OUTPUTS);
    static_assert(SHARED_BYTES <= 227 * 1024);
};

// The kernel for many channels, of which there is one: stride and dilation 1. Every other output
// channel is a block's, since there is no room for both parts of all weights.
struct ManyChannels {
    static constexpr int CHANNELS = 128, OUTPUTS = 128, TAPS = 3;
    static constexpr int POSITIONS = 128;  // of a tile: twice the rows of wgmma
    static constexpr int STAGE_CHANNELS = 8, STAGES = 4;  // for each consumer
    static constexpr int SPLITS = OUTPUTS / BLOCK_OUTPUTS;  // blocks that share a tile's x
    // Rows of y are 8 bytes off a multiple of 16 for odd output channels: their tiles begin two
    // outputs further left.
    static constexpr int LAG = 2;
    static constexpr int CHUNKS = CHANNELS / CHUNK_CHANNELS;
    static constexpr int STEPS = CHANNELS / STAGE_CHANNELS;  // stages of a tile
    // Of x left of a tile, where four are needed: whole sectors of 32 bytes are copied, and a row's
    // pitch puts the channels that a warp reads at a time in different banks.
    static constexpr int LEFT = 8;
    static constexpr int PITCH = LEFT + POSITIONS;
    static constexpr int WEIGHT_PART = TAPS * CHUNKS * BLOCK_OUTPUTS;  // in float4
    static constexpr int STAGE = STAGE_CHANNELS * PITCH;               // in float
    static constexpr int SHARED_BYTES =
        16 * PARTS * WEIGHT_PART + CONSUMERS * STAGES * (4 * STAGE + 2 * 8);
    static_assert(PITCH % 32 == 8 && 4 * STAGE % 128 == 0);  // TMA writes to multiples of 128
    static_assert(STAGE_CHANNELS == STEP_CHANNELS && SHARED_BYTES <= 227 * 1024);
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

// Arrives, and says how many bytes a copy will bring before the barrier is passed.
__device__ __forceinline__ void arrive_and_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Of each warp one thread, when all are there.
__device__ __forceinline__ void arrive(uint64_t* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                     :: "r"(shared_address(barrier)) : "memory");
}

// What ordinary stores wrote to shared memory, wgmma reads only behind this.
__device__ __forceinline__ void publish_to_wgmma() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ float to_tf32(float value) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return __uint_as_float(rounded);
}

// Stores four channels of one position or output channel as TF32, and `part_size` further on what
// rounding took from them.
__device__ __forceinline__ void store_parts(float4* to, int part_size, float4 v) {
    const float4 high = make_float4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
    to[0] = high;
    to[part_size] = make_float4(to_tf32(v.x - high.x), to_tf32(v.y - high.y),
                                to_tf32(v.z - high.z), to_tf32(v.w - high.w));
}

// Copies a box of a matrix from column `x` and row `y` on. `x` has to be a multiple of 16 bytes.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, int x, int y,
                                         uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)),
                    "r"(x), "r"(y) : "memory");
}

// A K-major matrix without swizzling: rows of 4 channels follow each other every 16 bytes, so that
// it may start at any row; `pitch` rows further come the next 4 channels.
__device__ __forceinline__ uint64_t matrix_descriptor(const void* start, int pitch) {
    constexpr uint64_t eight_rows = 128 >> 4;
    return eight_rows << 32 | uint64_t(pitch) << 16 | (shared_address(start) & 0x3FFFF) >> 4;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN(i + 16), SIXTEEN(i + 32), SIXTEEN(i + 48)

#define FIRST_32                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FIRST_64                                                                                  \
    FIRST_32 ", "                                                                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "            \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NEXT_64                                                                                   \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "            \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "            \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// d = a b, or d += a b: 64 positions, of which a thread has two for two channels each, by 64 output
// channels, over 8 input channels.
__device__ __forceinline__ void multiply(float (&d)[32], const float (&a)[4], uint64_t b,
                                         int accumulate) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" FIRST_32 "}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1;\n"
                 "}"
                 : SIXTEEN(0), SIXTEEN(16)
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
                   "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "l"(b),
                   "r"(accumulate));
}

// The same of 64 output channels by 256 positions, both in shared memory.
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" FIRST_64 ", " NEXT_64
                 "}, %128, %129, p, 1, 1;\n"
                 "}"
                 : SIXTY_FOUR(0), SIXTY_FOUR(64) : "l"(a), "l"(b), "r"(accumulate));
}

template <int PENDING>
__device__ __forceinline__ void wait_for_wgmma() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// Keeps the compiler from using sums before the wait that precedes this.
template <int COUNT>
__device__ __forceinline__ void settle(float (&sums)[COUNT]) {
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sums[i]) :: "memory");
}

template <class P>
struct Ring {
    float4* weights;  // (part, tap, 4 channels, output channel)
    float4* stages;   // (stage, part, 4 channels, position)
    uint64_t* full;
    uint64_t* empty;
    uint64_t* turn;  // of each consumer: all stages of the tiles before its next one are there

    __device__ explicit Ring(float4* shared)
        : weights(shared), stages(weights + PARTS * P::WEIGHT_PART),
          full(reinterpret_cast<uint64_t*>(stages + P::STAGES * PARTS * P::STAGE_PART)),
          empty(full + P::STAGES), turn(empty + P::STAGES) {}
};

// Of every `step`th output channel from `first` on.
template <class P>
__device__ void load_weights(float4* to, const float* weight, int step, int first) {
    constexpr int row = BLOCK_OUTPUTS * P::TAPS, next = P::OUTPUTS * P::TAPS;
    #pragma unroll 4
    for (int i = threadIdx.x; i < P::CHUNKS * row; i += THREADS) {
        const int chunk = i / row, output = i % row / P::TAPS, tap = i % P::TAPS;
        const float* from = weight + chunk * CHUNK_CHANNELS * next
            + (first + output * step) * P::TAPS + tap;
        store_parts(to + (tap * P::CHUNKS + chunk) * BLOCK_OUTPUTS + output, P::WEIGHT_PART,
                    make_float4(__ldg(from), __ldg(from + next), __ldg(from + 2 * next),
                                __ldg(from + 3 * next)));
    }
}

// Few channels: wgmma multiplies weights by x, both in shared memory. x is loaded through
// registers, and stored as (part, 4 channels, position).

// Where tile number `tile` is: outputs q = t + padding = SPREAD * m from m = `first` on.
template <class P>
struct Tile {
    int batch, first;

    __device__ Tile(const Problem& p, int tile)
        : batch(tile / p.tiles_per_row),
          first(tile % p.tiles_per_row * P::POSITIONS + p.padding / P::SPREAD) {}
};

// One stage of x on its way through the registers of the loading warpgroup: warps take turns with
// pieces of 4 channels by 32 positions; the last piece of 4 channels is the halo on the left.
template <class P>
struct Load {
    static constexpr int WARPS = GROUP / 32;
    static constexpr int PIECES = P::STAGE_CHUNKS * (P::POSITIONS / 32 + (P::HALO > 0));
    static constexpr int PER_WARP = (PIECES + WARPS - 1) / WARPS;
    float4 values[PER_WARP];

    static __device__ __forceinline__ int chunk(int i) {
        return (threadIdx.x / 32 % WARPS + i * WARPS) % P::STAGE_CHUNKS;
    }
    // In the window; negative where there is nothing to do.
    static __device__ __forceinline__ int place(int i) {
        const int piece = (threadIdx.x / 32 % WARPS + i * WARPS) / P::STAGE_CHUNKS;
        const int lane = threadIdx.x % 32;
        if (piece < P::POSITIONS / 32) return P::HALO + piece * 32 + lane;
        return piece == P::POSITIONS / 32 && lane < P::HALO ? lane : -1;
    }

    __device__ __forceinline__ void fetch(const Problem& p, int tile_number, int step) {
        const Tile<P> tile(p, tile_number);
        const float* x = p.x
            + (int64_t(tile.batch) * P::CHANNELS + step * P::STAGE_CHANNELS) * p.length;
        #pragma unroll
        for (int i = 0; i < PER_WARP; ++i) {
            const int position = tile.first - P::HALO + place(i);
            const bool inside = place(i) >= 0 && position >= 0 && position < p.length;
            const float* from = x + int64_t(chunk(i) * CHUNK_CHANNELS) * p.length + position;
            values[i].x = inside ? __ldg(from) : 0.0f;
            values[i].y = inside ? __ldg(from + p.length) : 0.0f;
            values[i].z = inside ? __ldg(from + 2 * int64_t(p.length)) : 0.0f;
            values[i].w = inside ? __ldg(from + 3 * int64_t(p.length)) : 0.0f;
        }
    }

    __device__ __forceinline__ void store(float4* stage) const {
        #pragma unroll
        for (int i = 0; i < PER_WARP; ++i)
            if (place(i) >= 0)
                store_parts(stage + chunk(i) * P::WINDOW + place(i), P::STAGE_PART, values[i]);
    }
};

template <class P>
__device__ __forceinline__ void produce(const Problem& p, const Ring<P>& ring, int first_tile,
                                        int tile_step) {
    const int tiles = (p.tiles - first_tile + tile_step - 1) / tile_step;
    const int steps = tiles * P::STEPS;
    Load<P> loads[P::AHEAD];
    #pragma unroll
    for (int i = 0; i < P::AHEAD; ++i)
        if (i < steps)
            loads[i].fetch(p, first_tile + i / P::STEPS * tile_step, i % P::STEPS);
    #pragma unroll 1
    for (int start = 0; start < steps; start += P::AHEAD) {
        #pragma unroll
        for (int i = 0; i < P::AHEAD; ++i) {
            const int step = start + i;
            if (step >= steps) return;
            const int stage = step % P::STAGES;
            wait(&ring.empty[stage], (step / P::STAGES & 1) ^ 1);
            loads[i].store(ring.stages + stage * PARTS * P::STAGE_PART);
            publish_to_wgmma();
            arrive(&ring.full[stage]);
            const int next = step + P::AHEAD;
            if (next < steps)
                loads[i].fetch(p, first_tile + next / P::STEPS * tile_step, next % P::STEPS);
        }
    }
}

// Four lanes have a row's pairs of positions 8 n + 2 lane for each n. So that together they write
// whole sectors, lanes below `ahead` take their pair of n + 1.
template <class P>
__device__ __forceinline__ void store_row(const float* sums, float* row, int t, int out_length,
                                          float bias) {
    constexpr int PAIRS = P::POSITIONS / 8;
    const int lane = threadIdx.x % 4;
    float2* to = reinterpret_cast<float2*>(row + t) + lane;
    auto pair = [&](int n) { return make_float2(sums[4 * n] + bias, sums[4 * n + 1] + bias); };
    if (t + P::POSITIONS > out_length) {
        #pragma unroll
        for (int n = 0; n < PAIRS; ++n)
            if (t + 8 * n + 2 * lane < out_length) to[4 * n] = pair(n);
        return;
    }
    const bool ahead = lane < (-(reinterpret_cast<uintptr_t>(row + t) >> 3) & 3);
    if (ahead) *to = pair(0);
    to += ahead ? 4 : 0;
    #pragma unroll
    for (int n = 0; n < PAIRS; ++n) {
        const float2 own = pair(n), next = pair(n + 1 < PAIRS ? n + 1 : n);
        if (n + 1 < PAIRS || !ahead)
            to[4 * n] = make_float2(ahead ? next.x : own.x, ahead ? next.y : own.y);
    }
}

// Output m stands at t = 2 m - padding, and next to it one without a term. A row may start at any
// multiple of 4 bytes; it is written in pieces of 16 where these are aligned: m, or m and the
// one after, or the neighbour on the left before both.
template <class P>
__device__ __forceinline__ void store_spread_row(const float* sums, float* row, int t,
                                                 int out_length, float bias) {
    constexpr int PAIRS = P::POSITIONS / 8;
    const int lane = threadIdx.x % 4;
    const int phase = (reinterpret_cast<uintptr_t>(row) / 4 + t) % 4;  // of t, to 16 bytes
    const bool is_odd = phase % 2 == 1;  // the neighbour is on the left
    if (t < 1 || t + 2 * P::POSITIONS > out_length) {
        #pragma unroll
        for (int n = 0; n < 2 * PAIRS; ++n) {
            const int at = t + 2 * (n / 2 * 8 + 2 * lane + n % 2);
            const int beside = at + (is_odd ? -1 : 1);
            if (at >= 0 && at < out_length) row[at] = sums[n / 2 * 4 + n % 2] + bias;
            if (beside >= 0 && beside < out_length) row[beside] = bias;
        }
        return;
    }
    const bool is_shifted = phase >= 2;  // pieces start with the second of a pair
    float* const first = row + t - is_odd;
    float* to = first + 4 * lane + 2 * is_shifted;
    const bool ahead = lane < (-(reinterpret_cast<uintptr_t>(first + 2 * is_shifted) >> 4) & 3);
    auto two = [&](float v) { return make_float2(is_odd ? bias : v, is_odd ? v : bias); };
    auto piece = [&](int n) {
        const float a = sums[4 * n] + bias, b = sums[4 * n + 1] + bias;
        const float after = sums[4 * (n + 1 < PAIRS ? n + 1 : n)] + bias;
        const float right = __shfl_sync(~0u, lane == 0 ? after : a, (lane + 1) % 4, 4);
        const float2 low = two(is_shifted ? b : a), high = two(is_shifted ? right : b);
        return make_float4(low.x, low.y, high.x, high.y);
    };
    if (is_shifted && lane == 0)
        __stcs(reinterpret_cast<float2*>(first), two(sums[0] + bias));
    float4 own = piece(0);
    if (ahead) __stcs(reinterpret_cast<float4*>(to), own);
    to += ahead ? 16 : 0;
    #pragma unroll
    for (int n = 0; n + 1 < PAIRS; ++n) {
        const float4 next = piece(n + 1);
        __stcs(reinterpret_cast<float4*>(to + 16 * n),
               make_float4(ahead ? next.x : own.x, ahead ? next.y : own.y,
                           ahead ? next.z : own.z, ahead ? next.w : own.w));
        own = next;
    }
    to += 16 * (PAIRS - 1);
    if (is_shifted && lane == 3)
        __stcs(reinterpret_cast<float2*>(to), make_float2(own.x, own.y));
    else if (!ahead)
        __stcs(reinterpret_cast<float4*>(to), own);
}

template <class P>
__device__ __forceinline__ void consume(const Problem& p, const Ring<P>& ring, int consumer,
                                        int first_tile, int tile_step) {
    const uint64_t weights = matrix_descriptor(ring.weights, BLOCK_OUTPUTS);
    const uint64_t stages = matrix_descriptor(ring.stages, P::WINDOW);
    const int thread = threadIdx.x % GROUP;
    float sums[P::POSITIONS / 2];
    #pragma unroll 1
    for (int turn = consumer; first_tile + turn * tile_step < p.tiles; turn += CONSUMERS) {
        // One after the other: parity tells a stage's next filling only from the one before.
        wait(&ring.turn[consumer], turn / CONSUMERS + (consumer == 0) & 1);
        #pragma unroll 1
        for (int i = 0; i < P::STEPS; ++i) {
            const int step = turn * P::STEPS + i, stage = step % P::STAGES;
            wait(&ring.full[stage], step / P::STAGES & 1);
            if (i == P::STEPS - 1) arrive(&ring.turn[(consumer + 1) % CONSUMERS]);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            #pragma unroll
            for (int chunk = 0; chunk < P::STAGE_CHUNKS; chunk += STEP_CHUNKS)
                #pragma unroll
                for (int tap = 0; tap < P::TAPS; ++tap)
                    #pragma unroll
                    for (int product = 0; product < 3; ++product) {
                        // High * high, high * low, low * high; descriptors count in float4.
                        const uint64_t a = weights + (product == 2 ? P::WEIGHT_PART : 0)
                            + (tap * P::CHUNKS + i * P::STAGE_CHUNKS + chunk) * BLOCK_OUTPUTS;
                        const uint64_t b = stages
                            + (stage * PARTS + (product == 1)) * P::STAGE_PART
                            + chunk * P::WINDOW + P::HALO - tap * P::SHIFT;
                        const bool is_first = chunk == 0 && tap == 0 && product == 0;
                        multiply(sums, a, b, is_first ? i : 1);
                    }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (i > 0) {
                wait_for_wgmma<1>();
                arrive(&ring.empty[(step - 1) % P::STAGES]);
            }
        }
        wait_for_wgmma<0>();
        settle(sums);
        arrive(&ring.empty[(turn * P::STEPS + P::STEPS - 1) % P::STAGES]);

        const Tile<P> tile(p, first_tile + turn * tile_step);
        const int t = tile.first * P::SPREAD - p.padding;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int o = thread / 32 * 16 + half * 8 + thread % 32 / 4;
            float* row = p.y + (int64_t(tile.batch) * P::OUTPUTS + o) * p.out_length;
            const float bias = p.bias == nullptr ? 0.0f : p.bias[o];
            if constexpr (P::SPREAD == 1)
                store_row<P>(sums + 2 * half, row, t, p.out_length, bias);
            else
                store_spread_row<P>(sums + 2 * half, row, t, p.out_length, bias);
        }
    }
}

template <class P>
__global__ void __launch_bounds__(THREADS, 1) few_channels_kernel(const Problem p) {
    extern __shared__ __align__(128) float4 shared[];
    const Ring<P> ring(shared);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < P::STAGES; ++stage) {
            init_barrier(&ring.full[stage], GROUP / 32);
            init_barrier(&ring.empty[stage], GROUP / 32);
        }
        for (int i = 0; i < CONSUMERS; ++i) init_barrier(&ring.turn[i], GROUP / 32);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    load_weights<P>(ring.weights, p.weight, 1, 0);
    publish_to_wgmma();
    __syncthreads();

    const int group = threadIdx.x / GROUP;
    if (group == CONSUMERS)
        produce<P>(p, ring, blockIdx.x, gridDim.x);
    else
        consume<P>(p, ring, group, blockIdx.x, gridDim.x);
}

// Many channels: wgmma multiplies x, from registers, by weights in shared memory; rows of the
// product are positions. Bulk copies bring x into shared memory as it lies: (channel, position).

// What two consumers share of shared memory, and what each has of its own.
struct Rings {
    float4* weights;  // (part, tap, 4 channels, output channel)
    float* stages;    // (stage, channel, position)
    uint64_t* full;
    uint64_t* empty;

    __device__ Rings(float4* shared, int consumer) : weights(shared) {
        using P = ManyChannels;
        stages = reinterpret_cast<float*>(weights + PARTS * P::WEIGHT_PART);
        full = reinterpret_cast<uint64_t*>(stages + CONSUMERS * P::STAGES * P::STAGE)
            + consumer * 2 * P::STAGES;
        empty = full + P::STAGES;
        stages += consumer * P::STAGES * P::STAGE;
    }
};

// The tiles of one consumer: outputs from t = `first` on, or `lag` further left.
struct Walk {
    int number, step, lag;

    __device__ Walk(int consumer) {
        const int worker = blockIdx.x / ManyChannels::SPLITS;
        const int workers = gridDim.x / ManyChannels::SPLITS;
        number = worker + consumer * workers;
        step = CONSUMERS * workers;
        lag = blockIdx.x % ManyChannels::SPLITS * ManyChannels::LAG;
    }

    __device__ int batch(const Problem& p) const { return number / p.tiles_per_row; }
    __device__ int first(const Problem& p) const {
        return number % p.tiles_per_row * ManyChannels::POSITIONS;
    }
};

// Of 8 channels of a tile, a thread has channels c and c + 4 with c = lane % 4, and of a warp's 32
// positions four side by side from 4 (lane / 4) on, and the two left of these. Rows of wgmma may be
// any positions, so that all its operands are among these: of its two times 64 rows, a thread has
// two in each.
struct Window {
    static constexpr int BEFORE = ManyChannels::TAPS - 1;
    float values[2][BEFORE + 4];

    __device__ __forceinline__ void read(const float* stage, int lag) {
        const int warp = threadIdx.x % GROUP / 32, lane = threadIdx.x % 32;
        const float* row = stage + lane % 4 * ManyChannels::PITCH + ManyChannels::LEFT - lag
            + 32 * warp + lane / 4 * 4 - BEFORE;
        #pragma unroll
        for (int i = 0; i < 2; ++i, row += 4 * ManyChannels::PITCH)
            #pragma unroll
            for (int j = 0; j < BEFORE + 4; j += 2) {
                const float2 two = *reinterpret_cast<const float2*>(row + j);
                values[i][j] = two.x, values[i][j + 1] = two.y;
            }
    }

    __device__ __forceinline__ void round(const Window& raw) {
        #pragma unroll
        for (int i = 0; i < 2; ++i)
            #pragma unroll
            for (int j = 0; j < BEFORE + 4; ++j) values[i][j] = to_tf32(raw.values[i][j]);
    }

    // What rounding took.
    __device__ __forceinline__ void round_rest(const Window& raw, const Window& high) {
        #pragma unroll
        for (int i = 0; i < 2; ++i)
            #pragma unroll
            for (int j = 0; j < BEFORE + 4; ++j)
                values[i][j] = to_tf32(raw.values[i][j] - high.values[i][j]);
    }
};

// All taps of 8 channels by the first `parts` parts of the weights, as one group of wgmma's.
template <int parts>
__device__ __forceinline__ void multiply_taps(float (&sums)[2][32], const Window& x,
                                              uint64_t weights, int accumulate) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int tap = 0; tap < ManyChannels::TAPS; ++tap)
        #pragma unroll
        for (int part = 0; part < parts; ++part)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int at = Window::BEFORE + 2 * half - tap;
                const float a[4] = {x.values[0][at], x.values[0][at + 1],
                                    x.values[1][at], x.values[1][at + 1]};
                const uint64_t b = weights + part * ManyChannels::WEIGHT_PART
                    + tap * ManyChannels::CHUNKS * BLOCK_OUTPUTS;
                multiply(sums[half], a, b, tap == 0 && part == 0 ? accumulate : 1);
            }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// As one store: a plain one is taken apart by the compiler here.
__device__ __forceinline__ void store(float* to, float4 v) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

__device__ __forceinline__ void store_tile(const Problem& p, const float (&sums)[2][32],
                                           const Walk& walk) {
    using P = ManyChannels;
    const int lane = threadIdx.x % 32, first = walk.first(p) - walk.lag;
    const int t = first + threadIdx.x % GROUP / 32 * 32 + lane / 4 * 4;
    const bool inside = first >= 0 && first + P::POSITIONS <= p.out_length;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        int o = (lane % 4 * 2 + half) * P::SPLITS + blockIdx.x % P::SPLITS;
        asm volatile("" : "+r"(o));  // not all rows' addresses in registers over the whole kernel
        float* to = p.y + (int64_t(walk.batch(p)) * P::OUTPUTS + o) * p.out_length + t;
        #pragma unroll
        for (int n = 0; n < BLOCK_OUTPUTS / 8; ++n) {
            const float bias = p.bias == nullptr ? 0.0f : __ldg(p.bias + o);
            const float4 v = make_float4(
                sums[0][4 * n + half] + bias, sums[0][4 * n + 2 + half] + bias,
                sums[1][4 * n + half] + bias, sums[1][4 * n + 2 + half] + bias);
            if (inside) {
                store(to, v);
            } else {
                if (t >= 0 && t < p.out_length) to[0] = v.x;
                if (t + 1 >= 0 && t + 1 < p.out_length) to[1] = v.y;
                if (t + 2 >= 0 && t + 2 < p.out_length) to[2] = v.z;
                if (t + 3 >= 0 && t + 3 < p.out_length) to[3] = v.w;
            }
            o += 8 * P::SPLITS;
            to += 8 * P::SPLITS * int64_t(p.out_length);
        }
    }
}

// One thread for each consumer: all it does is to start copies where there is room.
__device__ __forceinline__ void produce(const Problem& p, const CUtensorMap& x, const Rings& rings,
                                        Walk walk) {
    using P = ManyChannels;
    for (int step = 0; walk.number < p.tiles; walk.number += walk.step) {
        const int position = walk.first(p) + p.padding - P::LEFT;
        const int row = walk.batch(p) * P::CHANNELS;
        #pragma unroll 1
        for (int i = 0; i < P::STEPS; ++i, ++step) {
            const int stage = step % P::STAGES;
            wait(&rings.empty[stage], (step / P::STAGES & 1) ^ 1);
            arrive_and_expect(&rings.full[stage], 4 * P::STAGE);
            copy_box(rings.stages + stage * P::STAGE, &x, position, row + i * P::STAGE_CHANNELS,
                     &rings.full[stage]);
        }
    }
}

__device__ __forceinline__ void consume(const Problem& p, const Rings& rings, Walk walk) {
    using P = ManyChannels;
    const uint64_t weights = matrix_descriptor(rings.weights, BLOCK_OUTPUTS);
    float sums[2][32];
    #pragma unroll 1
    for (int step = 0; walk.number < p.tiles; walk.number += walk.step, step += P::STEPS) {
        const auto read = [&](Window& window, int i) {
            const int stage = (step + i) % P::STAGES;
            wait(&rings.full[stage], (step + i) / P::STAGES & 1);
            window.read(rings.stages + stage * P::STAGE, walk.lag);
        };
        // One part is computed while wgmma has the other. Unrolled, so that descriptors need no
        // registers of single threads, for which wgmma would wait.
        Window raw, high, low;
        read(raw, 0);
        #pragma unroll
        for (int i = 0; i < P::STEPS; ++i) {
            const uint64_t b = weights + i * STEP_CHUNKS * BLOCK_OUTPUTS;
            wait_for_wgmma<1>();
            high.round(raw);
            multiply_taps<2>(sums, high, b, i);
            wait_for_wgmma<1>();
            low.round_rest(raw, high);
            multiply_taps<1>(sums, low, b, 1);
            // Now that wgmma was given what was read, it has been read.
            arrive(&rings.empty[(step + i) % P::STAGES]);
            if (i + 1 < P::STEPS) read(raw, i + 1);
        }
        wait_for_wgmma<0>();
        settle(sums[0]);
        settle(sums[1]);
        store_tile(p, sums, walk);
    }
}

__global__ void __launch_bounds__(THREADS, 1)
many_channels_kernel(const Problem p, const __grid_constant__ CUtensorMap x) {
    extern __shared__ __align__(128) float4 shared[];
    const int group = threadIdx.x / GROUP, warp = threadIdx.x % GROUP / 32;
    if (threadIdx.x < CONSUMERS) {
        const Rings rings(shared, threadIdx.x);
        for (int stage = 0; stage < ManyChannels::STAGES; ++stage) {
            init_barrier(&rings.full[stage], 1);
            init_barrier(&rings.empty[stage], GROUP / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    load_weights<ManyChannels>(shared, p.weight, ManyChannels::SPLITS,
                               blockIdx.x % ManyChannels::SPLITS);
    publish_to_wgmma();
    __syncthreads();

    // Registers go from those who load to those who multiply.
    if (group == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (warp < CONSUMERS && threadIdx.x % 32 == 0)
            produce(p, x, Rings(shared, warp), Walk(warp));
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        consume(p, Rings(shared, group), Walk(group));
    }
}

struct Convolution {
    const float* x;
    const float* weight;  // (in_channels, out_channels / groups, kernel_size)
    const float* bias;
    float* y;
    int64_t outputs;  // elements of y
    int in_channels, out_channels, length, out_length;
    int kernel_size, stride, padding, dilation, groups;
    int tap_step;  // between the taps that one output has
};

// Any parameters: a thread for each output. With q = t + padding, tap k takes the input at
// (q - k * dilation) / stride where that divides: from the first such tap on every `tap_step`th.
__global__ void conv_transpose1d_any_kernel(const Convolution c) {
    const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= c.outputs) return;
    const int t = index % c.out_length;
    const int o = index / c.out_length % c.out_channels;
    const int batch = index / c.out_length / c.out_channels;
    const int group_inputs = c.in_channels / c.groups, group_outputs = c.out_channels / c.groups;
    const int group = o / group_outputs;
    const float* x = c.x + (int64_t(batch) * c.in_channels + group * group_inputs) * c.length;
    const float* weight = c.weight
        + (int64_t(group) * group_inputs * group_outputs + o % group_outputs) * c.kernel_size;

    const int q = t + c.padding;
    int tap = 0;
    while (tap < c.tap_step && (q - int64_t(tap) * c.dilation) % c.stride != 0) ++tap;
    float sum = c.bias == nullptr ? 0.0f : c.bias[o];
    if (tap < c.tap_step)
        for (; tap < c.kernel_size && int64_t(tap) * c.dilation <= q; tap += c.tap_step) {
            const int position = (q - tap * c.dilation) / c.stride;
            if (position >= c.length) continue;
            for (int channel = 0; channel < group_inputs; ++channel)
                sum += x[int64_t(channel) * c.length + position]
                       * weight[int64_t(channel) * group_outputs * c.kernel_size + tap];
        }
    c.y[index] = sum;
}

int greatest_common_divisor(int a, int b) {
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

void run_any(const Convolution& c, cudaStream_t stream) {
    constexpr int THREADS = 256;
    const int64_t blocks = (c.outputs + THREADS - 1) / THREADS;
    TORCH_CHECK(blocks < (int64_t(1) << 31), "too many outputs");
    conv_transpose1d_any_kernel<<<blocks, THREADS, 0, stream>>>(c);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

Problem divide(const Convolution& c, int64_t batch, int outputs_of_row, int positions) {
    const int tiles_per_row = (outputs_of_row + positions - 1) / positions;
    return {c.x,      c.weight,     c.bias,    c.y,           int(batch),
            c.length, c.out_length, c.padding, tiles_per_row, tiles_per_row * int(batch)};
}

template <class P>
bool has_sizes_of(const Convolution& c, int stride, int dilation) {
    return c.in_channels == P::CHANNELS && c.out_channels == P::OUTPUTS
        && c.kernel_size == P::TAPS && c.stride == stride && c.dilation == dilation
        && c.groups == 1;
}

template <class P, class... Arguments>
void launch(void (*kernel)(const Problem, Arguments...), int blocks, const Problem& problem,
            cudaStream_t stream, const Arguments&... arguments) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::SHARED_BYTES));
    kernel<<<blocks, THREADS, P::SHARED_BYTES, stream>>>(problem, arguments...);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Whether a plan is made for these sizes; if so, runs it.
template <class P>
bool run_few_channels(const Convolution& c, int64_t batch, cudaStream_t stream) {
    // Pairs of outputs are written together where there is one for every position.
    if (!has_sizes_of<P>(c, P::SPREAD, P::SHIFT * P::SPREAD)
        || (P::SPREAD == 1 && c.out_length % 2 != 0))
        return false;
    // Outputs m = (t + padding) / SPREAD, and where SPREAD is 2 one more for a neighbour.
    const int last = (c.out_length - 1 + c.padding + P::SPREAD - 1) / P::SPREAD;
    const int outputs_of_row = last - c.padding / P::SPREAD + 1;
    const Problem problem = divide(c, batch, outputs_of_row, P::POSITIONS);
    const int multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    launch<P>(few_channels_kernel<P>, std::min(problem.tiles, multiprocessors), problem, stream);
    return true;
}

// x as a matrix of (batch and channel, position), in boxes of a stage. Outside it are zeros.
CUtensorMap tensor_map(const Convolution& c, int64_t batch) {
    using P = ManyChannels;
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    C10_CUDA_CHECK(cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    TORCH_CHECK(found == cudaDriverEntryPointSuccess, "the driver has no tensor maps");
    const cuuint64_t sizes[2] = {cuuint64_t(c.length), cuuint64_t(batch) * P::CHANNELS};
    const cuuint64_t strides[1] = {cuuint64_t(c.length) * sizeof(float)};
    const cuuint32_t box[2] = {P::PITCH, P::STAGE_CHANNELS}, steps[2] = {1, 1};
    CUtensorMap map;
    const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(c.x), sizes, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled failed with ", int(result));
    return map;
}

bool run_many_channels(const Convolution& c, int64_t batch, cudaStream_t stream) {
    // Bulk copies take only whole 16 bytes, and from multiples of 16 bytes on.
    if (!has_sizes_of<ManyChannels>(c, 1, 1) || c.length % 4 != 0 || c.padding % 4 != 0
        || reinterpret_cast<uintptr_t>(c.x) % 16 != 0)
        return false;
    using P = ManyChannels;
    const Problem problem = divide(c, batch, c.out_length + P::LAG, P::POSITIONS);
    // Two blocks, with half of the output channels each, have the same tiles at the same time, so
    // that x comes from memory once.
    const int multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int workers = std::clamp(multiprocessors / P::SPLITS, 1, problem.tiles);
    launch<P>(many_channels_kernel, workers * P::SPLITS, problem, stream, tensor_map(c, batch));
    return true;
}

// How the sizes with few channels are fast: found by measuring.
using Dilated = Plan<32, 64, 5, 3, 1, 4, 2>;
using StridedDilated = Plan<32, 64, 3, 1, 2, 4, 1>;

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
    const Convolution c{
        x.data_ptr<float>(), weight.data_ptr<float>(),
        bias.has_value() ? bias->data_ptr<float>() : nullptr, y.data_ptr<float>(), y.numel(),
        int(x.size(1)), int(y.size(1)), int(x.size(2)), int(out_length), int(weight.size(2)),
        int(stride), int(padding), int(dilation), int(groups),
        int(stride) / greatest_common_divisor(stride, dilation)};
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    if (!run_many_channels(c, x.size(0), stream)
        && !run_few_channels<Dilated>(c, x.size(0), stream)
        && !run_few_channels<StridedDilated>(c, x.size(0), stream))
        run_any(c, stream);
    return y;
}
"""

extension = load_inline(
    name="conv_transpose1d_wgmma_3xtf32",
    cpp_sources=[cpp_source],
    cuda_sources=[cuda_source],
    functions=["conv_transpose1d"],
    extra_cuda_cflags=["-O3", "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a"],
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
