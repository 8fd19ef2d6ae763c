// ldmatrix, stmatrix and mma.sync, for test_matrix.py.
#include <cstdint>

__device__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// One warp; matrix i of 8 x 8 halves starts at 64 i.
template <int count, bool transposed>
__device__ void load(uint32_t *out, const uint16_t *in) {
  __shared__ alignas(16) uint16_t tile[count * 64];
  for (int i = threadIdx.x; i < count * 64; i += 32) tile[i] = in[i];
  __syncwarp();
  uint32_t r[4] = {};
  uint32_t at = shared_address(tile + threadIdx.x % (8 * count) * 8);
  if (count == 1 && !transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
  if (count == 2 && !transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(at));
  if (count == 4 && !transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  if (count == 4 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  for (int i = 0; i < count; ++i) out[i * 32 + threadIdx.x] = r[i];
}

__global__ void load_x1(uint32_t *out, const uint16_t *in) { load<1, false>(out, in); }
__global__ void load_x2(uint32_t *out, const uint16_t *in) { load<2, false>(out, in); }
__global__ void load_x4(uint32_t *out, const uint16_t *in) { load<4, false>(out, in); }
__global__ void load_x4_transposed(uint32_t *out, const uint16_t *in) { load<4, true>(out, in); }

// stmatrix writes back what ldmatrix reads. Only the first `rows` rows of the tile are initialised.
__global__ void through_stmatrix(uint16_t *out, const uint16_t *in, int rows) {
  __shared__ alignas(16) uint16_t from[256], to[256];
  for (int i = threadIdx.x; i < rows * 8; i += 32) from[i] = in[i];
  __syncwarp();
  uint32_t a, b, c, d;
  // nvcc 13.5 reports the first line of a statement, nvcc 13.0 its last.
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // line of the load
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(shared_address(from + threadIdx.x * 8)));  // line of the load
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
               :: "r"(shared_address(to + threadIdx.x % 16 * 8)), "r"(a), "r"(b));
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
               :: "r"(shared_address(to + 128 + threadIdx.x % 16 * 8)), "r"(c), "r"(d));
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = to[i];
}

// mma: every warp of the grid has its own registers. `a`, `b`, `c` and `d` are [register][thread].
#define OPERANDS(A, B, C)                                                                   \
  const int n = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;           \
  uint32_t x[A], y[B], z[C], w[C];                                                          \
  for (int i = 0; i < A; ++i) x[i] = a[i * n + t];                                          \
  for (int i = 0; i < B; ++i) y[i] = b[i * n + t];                                          \
  for (int i = 0; i < C; ++i) z[i] = c[i * n + t];
#define RESULTS(C) for (int i = 0; i < C; ++i) d[i * n + t] = w[i];
#define ARGUMENTS uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c

#define MMA_4_2_4(NAME, FORM)                                                               \
  __global__ void NAME(ARGUMENTS) {                                                         \
    OPERANDS(4, 2, 4)                                                                       \
    asm volatile("mma.sync.aligned." FORM                                                   \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"      \
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                            \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),         \
                   "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));                              \
    RESULTS(4)                                                                              \
  }
#define MMA_2_1_4(NAME, FORM)                                                               \
  __global__ void NAME(ARGUMENTS) {                                                         \
    OPERANDS(2, 1, 4)                                                                       \
    asm volatile("mma.sync.aligned." FORM " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                            \
                 : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3])); \
    RESULTS(4)                                                                              \
  }
#define MMA_4_2_2(NAME, FORM)                                                               \
  __global__ void NAME(ARGUMENTS) {                                                         \
    OPERANDS(4, 2, 2)                                                                       \
    asm volatile("mma.sync.aligned." FORM " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" \
                 : "=r"(w[0]), "=r"(w[1])                                                   \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),         \
                   "r"(z[0]), "r"(z[1]));                                                   \
    RESULTS(2)                                                                              \
  }

MMA_4_2_4(mma_f16_k16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_4_2_2(mma_f16_k16_half, "m16n8k16.row.col.f16.f16.f16.f16")
MMA_4_2_4(mma_bf16_k16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_4_2_4(mma_tf32_k8, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_4_2_4(mma_s8_k32, "m16n8k32.row.col.s32.s8.s8.s32")
MMA_4_2_4(mma_e4m3_k32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA_4_2_4(mma_u8_s8_k32, "m16n8k32.row.col.satfinite.s32.u8.s8.s32")
MMA_2_1_4(mma_f16_k8, "m16n8k8.row.col.f32.f16.f16.f32")
MMA_2_1_4(mma_bf16_k8, "m16n8k8.row.col.f32.bf16.bf16.f32")
MMA_2_1_4(mma_tf32_k4, "m16n8k4.row.col.f32.tf32.tf32.f32")
MMA_2_1_4(mma_s8_k16, "m16n8k16.row.col.s32.s8.s8.s32")

__global__ void mma_f64(double *d, const double *a, const double *b, const double *c) {
  const int n = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
  double w0, w1;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
               : "=d"(w0), "=d"(w1) : "d"(a[t]), "d"(b[t]), "d"(c[t]), "d"(c[n + t]));
  d[t] = w0;
  d[n + t] = w1;
}

// Half of every warp diverges before the mma and reconverges with the rest.
__global__ void mma_after_divergence(ARGUMENTS) {
  OPERANDS(2, 1, 4)
  if (threadIdx.x & 1)
    for (int i = 0; i < (t & 7); ++i) z[0] = z[0] * 3 + 1;
  else
    z[1] ^= 5;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32"
               " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
  RESULTS(4)
}
