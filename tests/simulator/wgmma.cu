// wgmma, for test_wgmma.py. The arguments have the contents of shared memory and the descriptors.
#include <cstdint>

// D += A B, where D is in registers; `a` and `b` are descriptors relative to shared memory's start.
#define SETUP                                                                               \
  extern __shared__ __align__(1024) uint4 shared[];                                         \
  for (int i = threadIdx.x; i < chunks; i += blockDim.x) shared[i] = data[i];               \
  __syncthreads();                                                                          \
  uint64_t at = static_cast<uint32_t>(__cvta_generic_to_shared(shared)) >> 4;               \
  uint64_t x = a + at, y = b + at;                                                          \
  asm volatile("wgmma.fence.sync.aligned;");
#define ARGUMENTS                                                                           \
  uint32_t *out, const uint4 *data, int chunks, uint64_t a, uint64_t b, int adds, const uint32_t *c
#define FINISH(N)                                                                           \
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");       \
  for (int i = 0; i < N; ++i) out[i * 128 + threadIdx.x] = d[i];
#define FOUR "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#define EIGHT FOUR, "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define START(N) uint32_t d[N]; for (int i = 0; i < N; ++i) d[i] = c[i * 128 + threadIdx.x];

#define N16(NAME, FORM, IMMEDIATES)                                                         \
  __global__ void NAME(ARGUMENTS) {                                                         \
    SETUP START(8)                                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0;\n"                                 \
                 "wgmma.mma_async.sync.aligned." FORM                                       \
                 " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p" IMMEDIATES "; }"            \
                 : EIGHT : "l"(x), "l"(y), "r"(adds));                                      \
    FINISH(8)                                                                               \
  }

N16(f16_kk, "m64n16k16.f32.f16.f16", ", 1, 1, 0, 0")
N16(f16_mm, "m64n16k16.f32.f16.f16", ", 1, 1, 1, 1")
N16(bf16_km, "m64n16k16.f32.bf16.bf16", ", -1, 1, 0, 1")
N16(bf16_kk, "m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0")
N16(tf32, "m64n16k8.f32.tf32.tf32", ", 1, -1")
N16(s8, "m64n16k32.s32.s8.s8", "")

__global__ void f16_half(ARGUMENTS) {
  SETUP START(4)
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0, %1, %2, %3}, %4, %5, p,"
               " 1, 1, 0, 0; }"
               : FOUR : "l"(x), "l"(y), "r"(adds));
  FINISH(4)
}

// A in registers: the row and column of each of a thread's elements.
__global__ void f16_registers(ARGUMENTS) {
  SETUP START(8)
  int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  uint32_t r[4];
  for (int i = 0; i < 4; ++i)
    r[i] = reinterpret_cast<const uint32_t *>(a)[((row + i % 2 * 8) * 16 + column + i / 2 * 8) / 2];
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %13, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7},"
               " {%8, %9, %10, %11}, %12, p, 1, 1, 0; }"
               : EIGHT : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(y), "r"(adds));
  FINISH(8)
}
