// Atomic operations, locks, and threads that wait for each other, for test_atomics.py.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#define OLD(NAME, CALL)                                              \
  template <typename T>                                              \
  __global__ void NAME(T* old, T* at, const T* x, T limit) {         \
    T v = x[threadIdx.x];                                            \
    old[threadIdx.x] = CALL;                                         \
  }
OLD(op_add, atomicAdd(at, v))
OLD(op_min, atomicMin(at, v))
OLD(op_max, atomicMax(at, v))
OLD(op_and, atomicAnd(at, v))
OLD(op_or, atomicOr(at, v))
OLD(op_xor, atomicXor(at, v))
OLD(op_exch, atomicExch(at, v))
OLD(op_cas, atomicCAS(at, limit, v))
OLD(op_inc, atomicInc(at, v))
OLD(op_dec, atomicDec(at, v))
#define MAKE(NAME, T) template __global__ void NAME<T>(T*, T*, const T*, T);
typedef unsigned long long u64;
typedef long long s64;
MAKE(op_add, int) MAKE(op_add, unsigned) MAKE(op_add, u64) MAKE(op_add, float) MAKE(op_add, double)
MAKE(op_min, int) MAKE(op_min, unsigned) MAKE(op_min, u64) MAKE(op_min, s64)
MAKE(op_max, int) MAKE(op_max, unsigned) MAKE(op_max, u64) MAKE(op_max, s64)
MAKE(op_and, unsigned) MAKE(op_and, u64) MAKE(op_or, unsigned) MAKE(op_or, u64)
MAKE(op_xor, unsigned) MAKE(op_xor, u64) MAKE(op_exch, int) MAKE(op_exch, u64)
MAKE(op_exch, float) MAKE(op_cas, int) MAKE(op_cas, u64) MAKE(op_cas, unsigned short)
MAKE(op_inc, unsigned) MAKE(op_dec, unsigned)
MAKE(op_add, __half) MAKE(op_add, __nv_bfloat16)

__global__ void pairs_of_halves(__half2* h, __nv_bfloat162* b, const float2* x) {
  float2 v = x[threadIdx.x];
  atomicAdd(h, __floats2half2_rn(v.x, v.y));
  atomicAdd(b, __floats2bfloat162_rn(v.x, v.y));
}

__global__ void vectors_of_floats(float4* y, const float4* x) {
  atomicAdd(y, x[threadIdx.x]);
  atomicAdd((float2*)(y + 1), make_float2(x[threadIdx.x].x, 1));
}

__global__ void shared_histogram(int* y, const int* x, int n) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[x[i] & 7], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(y + threadIdx.x, bins[threadIdx.x]);
}

__global__ void scopes(int* y) {
  atomicAdd_block(y, 1);
  atomicAdd_system(y, 2);
  int* p = y;
  asm volatile("red.release.gpu.global.add.s32 [%0], 4;" ::"l"(p) : "memory");
  asm volatile("red.relaxed.cta.add.u32 [%0], 8;" ::"l"(p) : "memory");
  int old;
  asm volatile("atom.acq_rel.sys.global.add.s32 %0, [%1], 16;" : "=r"(old) : "l"(p) : "memory");
}

__global__ void subnormals(float* y, float v) {
  __shared__ float s;
  if (threadIdx.x == 0) s = v;
  atomicAdd(y, v);
  atomicAdd(&s, v);
  y[1] = s;
}

__global__ void float_max(float* y, const float* x) {
  // The usual compare-and-swap loop.
  int* bits = (int*)y;
  int old = *bits, assumed;
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  do {
    assumed = old;
    old = atomicCAS(bits, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed))));
  } while (assumed != old);
}

__global__ void lock_and_add(int* y, int* lock) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      volatile int* v = y;
      *v = *v + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

__global__ void spin_lock(int* y, int* lock) {
  // Lock and unlock are not in one loop. Before Volta, this deadlocks within a warp.
  while (atomicCAS(lock, 0, 1) != 0);
  volatile int* v = y;
  *v = *v + 1;
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void chain(volatile int* y) {
  // Each thread waits for the next one; the last thread does not wait.
  int t = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  if (t + 1 < n)
    while (y[t + 1] == 0);
  y[t] = t + 1 < n ? y[t + 1] + 1 : 1;
}

__global__ void sleepers(volatile int* y) {
  unsigned ns = 8;
  if (threadIdx.x < 31) {
    while (*y == 0) {
      __nanosleep(ns);
      if (ns < 256) ns *= 2;
    }
  } else {
    *y = 7;
  }
}

__global__ void counted_waiting(volatile int* y, int limit) {
  int tries = 0;
  if (threadIdx.x == 0) {
    while (*y == 0 && tries < limit) tries++;
    y[1] = *y;
  } else {
    *y = 5;
  }
}

__global__ void clocks(long long* y) {
  long long start = clock64();
  while (clock64() - start < 5000);
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  y[threadIdx.x] = clock64() - start;
  y[32 + threadIdx.x] = t > 0;
}

__global__ void grid_barrier(int* y, int* x) {
  auto grid = cooperative_groups::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int round = 0; round < 3; round++) {
    x[i] = i + round;
    grid.sync();
    y[i] += x[n - 1 - i];
    grid.sync();
  }
}

__global__ void never(volatile int* y) {
  if (threadIdx.x == 5) while (*y == 0);  // line of the loop
  __syncthreads();  // line of the barrier
}

__global__ void work_queue(int* counter, int* y, int n) {
  for (;;) {
    int i = atomicAdd(counter, 1);
    if (i >= n) break;
    y[i] = i * i;
  }
}

__global__ void stride_for_sum(float* y, int n) {
  // "= step" is a mistake for "+= step": every round stores what the previous one stored.
  int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i = step) y[i] = 0.5f * i;
}

__global__ void count_in_memory(volatile int* y) {
  while (*y < 5000) *y = *y + 1;
}
