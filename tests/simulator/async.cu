// Asynchronous copies and mbarriers, for test_async.py.
#include <cuda_pipeline.h>
#include <cstdint>

__device__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Each thread copies 16 bytes in each of two groups. The last `left` groups are not waited for.
__global__ void two_groups(float4 *out, const float4 *in, int left) {
  __shared__ float4 tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&tile[32 + threadIdx.x], &in[32 + threadIdx.x], 16);
  __pipeline_commit();
  if (left == 0) __pipeline_wait_prior(0);
  if (left == 1) __pipeline_wait_prior(1);
  out[threadIdx.x] = tile[threadIdx.x];            // first group
  out[32 + threadIdx.x] = tile[32 + threadIdx.x];  // second group
}

// Copies of 4 bytes whose src-size is smaller, and of 8 bytes with a predicate ignoring the source.
__global__ void partial(uint32_t *out, const uint32_t *in, int bytes) {
  __shared__ uint32_t tile[96];
  uint32_t to = shared_address(tile + threadIdx.x), pair = shared_address(tile + 32 + threadIdx.x * 2);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(to), "l"(in + threadIdx.x), "r"(threadIdx.x < 3 ? bytes : 4));
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 8, p; }"
               :: "r"(pair), "l"(in + threadIdx.x * 2), "r"(threadIdx.x & 1));
  asm volatile("cp.async.wait_all;");
  __syncwarp();
  for (int i = threadIdx.x; i < 96; i += 32) out[i] = tile[i];
}

__device__ void init(uint64_t *b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(count));
}
__device__ void wait(uint64_t *b, int parity) {
  asm volatile("{ .reg .pred p;\n"
               "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@p bra DONE;\nbra WAIT;\nDONE: }"
               :: "r"(shared_address(b)), "r"(parity) : "memory");
}
__device__ void arrive(uint64_t *b) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }"
               :: "r"(shared_address(b)) : "memory");
}
__device__ void expect(uint64_t *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(b)), "r"(bytes) : "memory");
}

// Warp 0 produces numbers and warp 1 consumes them, in a ring of two slots with two barriers each.
// `forget` leaves out the arrival of one consumer.
__global__ void ring(int *out, int rounds, int forget) {
  __shared__ uint64_t full[2], empty[2];
  __shared__ int slots[2][32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) { init(&full[i], 32); init(&empty[i], 32); }
  __syncthreads();
  if (threadIdx.x >= 32) {
    int sum = 0;
    for (int i = 0; i < rounds; ++i) {
      wait(&full[i % 2], i / 2 & 1);
      sum += slots[i % 2][31 - lane];
      if (!forget || lane) arrive(&empty[i % 2]);
    }
    out[blockIdx.x * 32 + lane] = sum;
  } else {
    for (int i = 0; i < rounds; ++i) {
      wait(&empty[i % 2], (i / 2 & 1) ^ 1);
      slots[i % 2][lane] = i * 100 + lane;
      arrive(&full[i % 2]);
    }
  }
}

// States instead of parities, with arrive_drop and test_wait.
__global__ void states(int *out) {
  __shared__ uint64_t b;
  if (threadIdx.x == 0) init(&b, 33);
  __syncwarp();
  uint64_t state, next;
  int before;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&b)));
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
               : "=r"(before) : "r"(shared_address(&b)), "l"(state));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(next) : "r"(shared_address(&b)));
  __syncwarp();
  int after, again;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
               : "=r"(after) : "r"(shared_address(&b)), "l"(state));
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(next) : "r"(shared_address(&b)));
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
               : "=r"(again) : "r"(shared_address(&b)), "l"(next));
  out[threadIdx.x] = before | after << 1 | again << 2;
}

__global__ void pending_counts(int *out) {
  __shared__ uint64_t b;
  init(&b, 7);
  for (int i = 0; i < 3; i++) {
    uint64_t state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1], %2;"
                 : "=l"(state) : "r"(shared_address(&b)), "r"(i + 1));
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(out[i]) : "l"(state));
  }
}

// A cp.async that an mbarrier counts; without `waits`, the tile is read too early.
__global__ void counted(float4 *out, const float4 *in, int waits) {
  __shared__ uint64_t b;
  __shared__ float4 tile[32];
  if (threadIdx.x == 0) init(&b, 32);
  __syncthreads();
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(&b)));
  if (waits) wait(&b, 0);
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

// One bulk copy loads the tile, another stores it.
__global__ void bulk(float *out, const float *in, int bytes) {
  __shared__ alignas(128) float tile[256];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) {
    init(&b, 1);
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;");
    expect(&b, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(tile)), "l"(in), "r"(bytes), "r"(shared_address(&b))
                 : "memory");
  }
  __syncthreads();
  wait(&b, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) tile[i] += 1;
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(out), "r"(shared_address(tile)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;");
  }
}

struct alignas(64) Map { char opaque[128]; };

// Copies a box of a matrix through tensor maps; `raw` receives the bytes in shared memory.
__global__ void box(const __grid_constant__ Map from, const __grid_constant__ Map to,
                    uint32_t *raw, int bytes, int x, int y, int waits) {
  __shared__ alignas(1024) uint32_t tile[1024];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) {
    init(&b, 1);
    asm volatile("prefetch.tensormap [%0];" :: "l"(&from));
    expect(&b, bytes);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(tile)), "l"(&from), "r"(x), "r"(y), "r"(shared_address(&b))
                 : "memory");
  }
  __syncthreads();
  if (waits) wait(&b, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) raw[i] = tile[i];
  // On a GPU, a store of a box that starts below zero is an illegal instruction.
  if (threadIdx.x == 0 && (waits == 2 || (x >= 0 && y >= 0))) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&to), "r"(x), "r"(y), "r"(shared_address(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
  }
}

__global__ void of_count(int *out, int count) {
  __shared__ uint64_t b;
  init(&b, count);
  arrive(&b);
  wait(&b, 0);
  out[0] = 1;
}
