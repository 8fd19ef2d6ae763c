// Synchronisation that kernels make by hand, right and wrong, for test_racecheck_flags.py.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;

// A block hands data to the next one through its flag. RELEASE stores the flag, and ACQUIRE waits.
#define HAND_OVER(name, RELEASE, ACQUIRE)                                             \
  extern "C" __global__ void name(float* data, unsigned* flags, float* y) {           \
    int t = threadIdx.x, b = blockIdx.x;                                              \
    unsigned* mine = flags + b;                                                       \
    unsigned* before = flags + b - 1;                                                 \
    float* slot = data + 64 * b + t;                                                  \
    RELEASE                                                                           \
    if (b > 0) {                                                                      \
      ACQUIRE                                                                         \
      y[64 * b + t] = data[64 * (b - 1) + 63 - t];                                    \
    }                                                                                 \
  }
#define SPIN while (*(volatile unsigned*)before == 0);
#define STORE(value) *slot = value; /* data */
#define ONE_SPINS(spin) if (t == 0) { spin } __syncthreads();
#define ONE_STORES(store) __syncthreads(); if (t == 0) { store }
#define SET *(volatile unsigned*)mine = 1;

// Right: the writer has a fence between its data and the flag.
HAND_OVER(volatile_flag, STORE(t) ONE_STORES(__threadfence(); SET),
          ONE_SPINS(SPIN __threadfence();))
HAND_OVER(every_thread_fences, STORE(t) __threadfence(); ONE_STORES(SET),
          ONE_SPINS(SPIN) __threadfence();)
HAND_OVER(every_thread_spins, STORE(t) ONE_STORES(__threadfence(); SET), SPIN __threadfence();)
HAND_OVER(atomic_flag, STORE(t) ONE_STORES(__threadfence(); atomicExch(mine, 1);),
          ONE_SPINS(while (atomicAdd(before, 0) == 0);))
HAND_OVER(release_store, STORE(t) ONE_STORES(
    asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(mine) : "memory");),
          ONE_SPINS(unsigned seen; do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(before) : "memory");
          } while (!seen);))
HAND_OVER(release_reduction, STORE(t) ONE_STORES(
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(mine) : "memory");),
          ONE_SPINS(SPIN))
HAND_OVER(atomic_ref, STORE(t) ONE_STORES(
    cuda::atomic_ref<unsigned>(*mine).store(1, cuda::std::memory_order_release);),
          ONE_SPINS(while (!cuda::atomic_ref<unsigned>(*before).load(
              cuda::std::memory_order_acquire));))
HAND_OVER(passed_on_in_the_block, STORE(t) __threadfence_block(); __shared__ volatile int ready;
          if (t == 0) ready = 0; __syncthreads();
          if (t == 40) { *slot = 40; __threadfence_block(); ready = 1; }
          if (t == 0) { while (!ready); __threadfence_block(); __threadfence(); SET },
          ONE_SPINS(SPIN __threadfence();))
HAND_OVER(passed_on_by_a_block, STORE(t) if (b > 0) { ONE_SPINS(SPIN __threadfence();) }
          ONE_STORES(__threadfence(); SET),
          if (b == 2) { y[t] = data[63 - t]; } ONE_SPINS(SPIN __threadfence();))

HAND_OVER(cached_in_l2, STORE(t) ONE_STORES(__threadfence(); atomicAdd(mine, 1);),
          ONE_SPINS(while (__ldcg(before) == 0);) __threadfence();)
HAND_OVER(passed_on_by_an_mbarrier, STORE(t) ONE_STORES(__threadfence(); SET),
          __shared__ cuda::barrier<cuda::thread_scope_block> ready;
          ONE_SPINS(init(&ready, 64);) if (t == 0) { SPIN } ready.arrive_and_wait();)

// Wrong: the flag promises data that nothing has released.
HAND_OVER(flag_before_data, if (t == 0) { SET } STORE(t) __threadfence();,
          ONE_SPINS(SPIN) __threadfence();)
HAND_OVER(only_the_reader_fences, STORE(t) ONE_STORES(SET), ONE_SPINS(SPIN) __threadfence();)
HAND_OVER(fence_before_data, __threadfence(); STORE(t) ONE_STORES(SET), ONE_SPINS(SPIN)
          __threadfence();)
HAND_OVER(fence_of_the_block, STORE(t) ONE_STORES(__threadfence_block(); SET),
          ONE_SPINS(SPIN) __threadfence();)
HAND_OVER(flag_of_the_block, STORE(t) ONE_STORES(__threadfence(); atomicExch_block(mine, 1);),
          ONE_SPINS(while (atomicAdd_block(before, 0) == 0);) __threadfence();)
HAND_OVER(other_flag, STORE(t) ONE_STORES(__threadfence(); *(volatile unsigned*)(mine + 8) = 1; SET)
          STORE(t + 1) __threadfence(); ,
          ONE_SPINS(SPIN) __threadfence();)
HAND_OVER(no_flag_is_read, STORE(t) ONE_STORES(__threadfence(); SET),
          ONE_SPINS((void)*(volatile unsigned*)(before + 32);))

// Each of three rounds has a flag and data of its own. With `early`, the flags after the first
// precede their data.
extern "C" __global__ void rounds(float* data, unsigned* flags, float* y, int early) {
  int t = threadIdx.x;
  for (int r = 0; r < 3; r++) {
    volatile unsigned* flag = flags + r;
    if (blockIdx.x == 0) {
      if (early && r > 0 && t == 0) *flag = 1;
      data[64 * r + t] = t;  // of a round
      __threadfence();
      __syncthreads();
      if ((!early || r == 0) && t == 0) *flag = 1;
    } else {
      if (t == 0) while (!*flag);
      __syncthreads();
      __threadfence();
      y[64 * r + t] = data[64 * r + 63 - t];
    }
  }
}

// NVIDIA's sample threadFenceReduction: the last block to finish adds up what all have stored.
__device__ unsigned count = 0;
extern "C" __global__ void last_block_sums(const float* x, volatile float* parts, float* y) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    is_last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += parts[i];
    *y = sum;
    count = 0;
  }
}

// A scan with decoupled look-back: a block publishes its sum, then its prefix.
extern "C" __global__ void look_back(const int* x, int* sums, int* prefixes, int* states, int* y) {
  int b = blockIdx.x;
  if (threadIdx.x) return;
  volatile int* state = states;
  sums[b] = x[b];
  __threadfence();
  state[b] = 1;
  int before = 0;
  for (int i = b - 1; i >= 0; i--) {
    int seen;
    while ((seen = state[i]) == 0);
    __threadfence();
    if (seen == 2) {
      before += prefixes[i];
      break;
    }
    before += sums[i];
  }
  prefixes[b] = y[b] = before + x[b];
  __threadfence();
  state[b] = 2;
}

// Blocks meet at the barrier of the grid.
extern "C" __global__ void grid_barrier(float* data, float* y) {
  int t = threadIdx.x, b = blockIdx.x;
  data[64 * b + t] = t;
  cg::this_grid().sync();
  y[64 * b + t] = data[64 * (gridDim.x - 1 - b) + 63 - t];
}

// A counter of block scope is not atomic between blocks.
extern "C" __global__ void count_in_block(unsigned* counts, int of_block) {
  if (of_block) atomicAdd_block(counts, 1);  // block scope
  else atomicAdd_block(counts + blockIdx.x, 1);
}
