// Matrix multiplications as submissions write them, for test_gemm.py.
#include <cstdint>

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- cp.async, ldmatrix, mma.sync tf32: C (m x n) = A (m x k) B (k x n), all row-major -----------

namespace tf32 {
constexpr int kTile = 64, kDepth = 16, kStages = 3, kPitchA = kDepth + 4, kPitchB = kTile + 8;

struct Stage {
  float a[kTile * kPitchA];
  float b[kDepth * kPitchB];
};

__device__ __forceinline__ void copy16(float *to, const float *from, bool is_inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(shared_address(to)), "l"(from), "r"(is_inside ? 16 : 0));
}

__device__ void fetch(Stage &stage, const float *a, const float *b, int m, int n, int k, int depth) {
  for (int i = threadIdx.x; i < kTile * kDepth / 4; i += blockDim.x) {
    int row = i / (kDepth / 4), column = i % (kDepth / 4) * 4;
    int y = blockIdx.y * kTile + row, x = depth + column;
    bool inside = y < m && x < k;
    copy16(&stage.a[row * kPitchA + column], inside ? a + y * k + x : a, inside);
  }
  for (int i = threadIdx.x; i < kTile * kDepth / 4; i += blockDim.x) {
    int row = i / (kTile / 4), column = i % (kTile / 4) * 4;
    int y = depth + row, x = blockIdx.x * kTile + column;
    bool inside = y < k && x < n;
    copy16(&stage.b[row * kPitchB + column], inside ? b + y * n + x : b, inside);
  }
  asm volatile("cp.async.commit_group;");
}

__device__ __forceinline__ uint32_t rounded(uint32_t bits) {
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
  return result;
}
}  // namespace tf32

template <bool waits>
__device__ void gemm_tf32_block(float *c, const float *a, const float *b, int m, int n, int k) {
  using namespace tf32;
  extern __shared__ __align__(16) unsigned char memory[];
  Stage *stages = reinterpret_cast<Stage *>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  float sums[2][4][4] = {};
  const int steps = (k + kDepth - 1) / kDepth;
  for (int s = 0; s < kStages - 1; ++s) fetch(stages[s], a, b, m, n, k, s * kDepth);
  for (int step = 0; step < steps; ++step) {
    if (waits) asm volatile("cp.async.wait_group %0;" :: "n"(kStages - 2));
    __syncthreads();
    fetch(stages[(step + kStages - 1) % kStages], a, b, m, n, k, (step + kStages - 1) * kDepth);
    const Stage &stage = stages[step % kStages];
    for (int depth = 0; depth < kDepth; depth += 8) {
      uint32_t x[2][4], y[4][2];
      for (int i = 0; i < 2; ++i) {
        int row = warp_row + i * 16 + lane % 16, column = depth + lane / 16 * 4;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                     : "r"(shared_address(&stage.a[row * kPitchA + column])));
        for (int r = 0; r < 4; ++r) x[i][r] = rounded(x[i][r]);
      }
      for (int j = 0; j < 4; ++j)
        for (int r = 0; r < 2; ++r)
          y[j][r] = rounded(__float_as_uint(
              stage.b[(depth + lane % 4 + r * 4) * kPitchB + warp_column + j * 8 + lane / 4]));
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
                       " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]),
                         "+f"(sums[i][j][3])
                       : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]),
                         "r"(y[j][1]));
    }
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < 4; ++r) {
        int row = blockIdx.y * kTile + warp_row + i * 16 + lane / 4 + r / 2 * 8;
        int column = blockIdx.x * kTile + warp_column + j * 8 + lane % 4 * 2 + r % 2;
        if (row < m && column < n) c[row * n + column] = sums[i][j][r];
      }
}

__global__ void __launch_bounds__(128)
    gemm_tf32(float *c, const float *a, const float *b, int m, int n, int k) {
  gemm_tf32_block<true>(c, a, b, m, n, k);
}

// The same kernel without the wait: it reads data that may not have arrived.
__global__ void __launch_bounds__(128)
    gemm_forgets(float *c, const float *a, const float *b, int m, int n, int k) {
  gemm_tf32_block<false>(c, a, b, m, n, k);
}

// ---- TMA, mbarriers, wgmma f16: C (m x n, float) = A (m x k) B (n x k) transposed ---------------

#ifdef HOPPER
struct alignas(64) Map { char opaque[128]; };

namespace hopper {
constexpr int kTile = 64, kDepth = 64, kStages = 3, kBytes = kTile * kDepth * 2;

__device__ __forceinline__ void init(uint64_t *barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(count));
}
__device__ __forceinline__ void wait(uint64_t *barrier, uint32_t parity) {
  asm volatile("{\n.reg .pred done;\nRETRY:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra READY;\nbra RETRY;\nREADY:\n}"
               :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(void *to, const Map *map, int x, int y, uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];"
               :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
               : "memory");
}
__device__ __forceinline__ uint64_t descriptor(const void *tile) {
  uint64_t result = (shared_address(tile) & 0x3FFFF) >> 4;
  result |= uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
  return result;
}
#define R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(d, i) R4(d, i), R4(d, i + 4), R4(d, i + 8), R4(d, i + 12)
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : R16(d, 0), R16(d, 16) : "l"(a), "l"(b));
}
}  // namespace hopper

__global__ void __launch_bounds__(256)
    gemm_wgmma(float *c, const __grid_constant__ Map a, const __grid_constant__ Map b, int n, int k) {
  using namespace hopper;
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ uint64_t full[kStages], empty[kStages];
  unsigned char *tiles_a = memory, *tiles_b = memory + kStages * kBytes;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&full[s], 1);
      init(&empty[s], 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async.shared::cta;");
  }
  __syncthreads();
  const int steps = k / kDepth;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int step = 0; step < steps; ++step) {
        int s = step % kStages;
        wait(&empty[s], (step / kStages & 1) ^ 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(shared_address(&full[s])), "r"(2 * kBytes) : "memory");
        load(tiles_a + s * kBytes, &a, step * kDepth, blockIdx.y * kTile, &full[s]);
        load(tiles_b + s * kBytes, &b, step * kDepth, blockIdx.x * kTile, &full[s]);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32] = {};
    for (int step = 0; step < steps; ++step) {
      int s = step % kStages;
      wait(&full[s], step / kStages & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int part = 0; part < kDepth / 16; ++part)
        multiply(d, descriptor(tiles_a + s * kBytes + part * 32),
                 descriptor(tiles_b + s * kBytes + part * 32));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }"
                   :: "r"(shared_address(&empty[s])) : "memory");
    }
    int thread = threadIdx.x - 128;
    int row = blockIdx.y * kTile + thread / 32 * 16 + thread % 32 / 4;
    int column = blockIdx.x * kTile + thread % 4 * 2;
    for (int i = 0; i < 32; ++i)
      c[(row + i / 2 % 2 * 8) * n + column + i / 4 * 8 + i % 2] = d[i];
  }
}

// Two warpgroups multiply 64 rows each by the same columns. One thread of a warpgroup arrives for
// all its warps when they are done with a slot. The sums leave through the slots' shared memory.
// With `early`, it arrives before the wgmmas that read the slot are done.
template <bool early>
__device__ void gemm_of_two_groups(float *c, const Map *a, const Map *b, int n, int k) {
  using namespace hopper;
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, steps = k / kDepth;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&full[s], 1);
      init(&empty[s], 2);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (group < 0) {
    if (thread == 0)
      for (int step = 0; step < steps; ++step) {
        int s = step % kStages;
        unsigned char *slot = memory + 3 * s * kBytes;
        wait(&empty[s], (step / kStages & 1) ^ 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(shared_address(&full[s])), "r"(3 * kBytes) : "memory");
        for (int i = 0; i < 2; ++i)
          load(slot + i * kBytes, a, step * kDepth, (blockIdx.y * 2 + i) * kTile, &full[s]);
        load(slot + 2 * kBytes, b, step * kDepth, blockIdx.x * kTile, &full[s]);
      }
    return;
  }
  float d[32] = {};
  for (int step = 0; step < steps; ++step) {
    const unsigned char *slot = memory + 3 * (step % kStages) * kBytes;
    wait(&full[step % kStages], step / kStages & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int part = 0; part < kDepth / 16; ++part)
      multiply(d, descriptor(slot + group * kBytes + part * 32),
               descriptor(slot + 2 * kBytes + part * 32));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (!early) asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    int done = early ? step : step - 1;
    if (thread == 32 * (1 + group) && done >= 0)
      asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }"
                   :: "r"(shared_address(&empty[done % kStages])) : "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  asm volatile("bar.sync 1, 256;" ::: "memory");
  float *tile = reinterpret_cast<float *>(memory) + group * kTile * kTile;
  for (int i = 0; i < 32; ++i) {
    int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    tile[row * kTile + i / 4 * 8 + thread % 4 * 2 + i % 2] = d[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" :: "r"(2 + group) : "memory");
  if (thread == 0) {
    for (int row = 0; row < kTile; ++row) {
      float *to = c + ((blockIdx.y * 2 + group) * kTile + row) * n + blockIdx.x * kTile;
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                   :: "l"(to), "r"(shared_address(tile + row * kTile)), "n"(kTile * 4) : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

__global__ void __launch_bounds__(384)
    gemm_two_groups(float *c, const __grid_constant__ Map a, const __grid_constant__ Map b, int n,
                    int k) {
  gemm_of_two_groups<false>(c, &a, &b, n, k);
}

__global__ void __launch_bounds__(384)
    gemm_frees_early(float *c, const __grid_constant__ Map a, const __grid_constant__ Map b, int n,
                     int k) {
  gemm_of_two_groups<true>(c, &a, &b, n, k);
}
#endif
