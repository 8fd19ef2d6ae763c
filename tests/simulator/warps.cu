// Exchanges between the lanes of a warp, and barriers, for test_warps.py.
#include <cstdint>

__global__ void shuffles(int* y, const int* x, const char* is_open, unsigned mask, int amount,
                         int width) {
  int t = threadIdx.x, n = blockDim.x;
  if (!(mask >> (t & 31) & 1)) return;
  int got[] = {__shfl_sync(mask, x[t], amount, width), __shfl_up_sync(mask, x[t], amount, width),
               __shfl_down_sync(mask, x[t], amount, width),
               __shfl_xor_sync(mask, x[t], amount, width)};
  for (int i = 0; i < 4; i++)
    if (!is_open[i * n + t]) y[i * n + t] = got[i];
}

__global__ void shuffle_wide(double* y, const double* x) {
  y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 5);
}

__global__ void varying_source(int* y, const int* x, const int* from) {
  y[threadIdx.x] = __shfl_sync(~0u, x[threadIdx.x], from[threadIdx.x]);
}

__global__ void warp_sum(float* y) {
  float v = y[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset; offset /= 2) v += __shfl_down_sync(~0u, v, offset);
  if (threadIdx.x % 32 == 0) y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

__global__ void votes(unsigned* y, const int* x, unsigned mask) {
  int t = threadIdx.x, n = blockDim.x;
  if (!(mask >> (t & 31) & 1)) return;
  y[t] = __ballot_sync(mask, x[t] & 1);
  y[n + t] = __any_sync(mask, x[t] & 1);
  y[2 * n + t] = __all_sync(mask, x[t] & 1);
  y[3 * n + t] = __uni_sync(mask, x[t] & 1);
}

template <typename T>
__global__ void matches(unsigned* y, const T* x, unsigned mask) {
  int t = threadIdx.x, n = blockDim.x, same = 7;
  if (!(mask >> (t & 31) & 1)) return;
  y[t] = __match_any_sync(mask, x[t]);
  y[n + t] = __match_all_sync(mask, x[t], &same);
  y[2 * n + t] = same;
}
template __global__ void matches<int>(unsigned*, const int*, unsigned);
template __global__ void matches<long long>(unsigned*, const long long*, unsigned);

__global__ void reductions(unsigned* y, const int* x, unsigned mask) {
  int t = threadIdx.x, n = blockDim.x;
  if (!(mask >> (t & 31) & 1)) return;
  unsigned u = x[t];
  y[t] = __reduce_add_sync(mask, x[t]);
  y[n + t] = __reduce_min_sync(mask, x[t]);
  y[2 * n + t] = __reduce_max_sync(mask, x[t]);
  y[3 * n + t] = __reduce_min_sync(mask, u);
  y[4 * n + t] = __reduce_max_sync(mask, u);
  y[5 * n + t] = __reduce_and_sync(mask, u);
  y[6 * n + t] = __reduce_or_sync(mask, u);
  y[7 * n + t] = __reduce_xor_sync(mask, u);
}

__global__ void halves(unsigned* y) {
  // Both sides of a divergent branch exchange within their own half.
  int t = threadIdx.x;
  if (t % 2)
    y[t] = __shfl_xor_sync(0xAAAAAAAAu, t * 10, 2) + 1000 * __popc(__activemask());
  else
    y[t] = __ballot_sync(0x55555555u, t % 4 == 0);
}

__global__ void late_lanes(int* y) {
  // Lanes reach the shuffle one after the other, after loops of different lengths.
  int t = threadIdx.x, v = 0;
  for (int i = 0; i <= t; i++) v += i * y[0];
  y[1 + t] = __shfl_xor_sync(~0u, v, 1);
}

__global__ void two_places(int* y) {
  // Lanes at different __syncwarp meet.
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 16) {
    s[t] = t;
    __syncwarp();
    y[t] = s[t + 16];
  } else {
    s[t] = t;
    __syncwarp();
    y[t] = s[t - 16];
  }
}

__global__ void elects(unsigned* y, unsigned mask) {
  int t = threadIdx.x;
  if (!(mask >> (t & 31) & 1)) return;
  unsigned leader, is_leader;
  asm volatile(
      "{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
      : "=r"(leader), "=r"(is_leader)
      : "r"(mask));
  y[t] = leader * 2 + is_leader;
}

__global__ void named_mask(unsigned* y, unsigned mask, int ended) {
  if (threadIdx.x < ended) return;
  y[threadIdx.x] = __ballot_sync(mask, 1);  // line of the ballot
}

__global__ void never_comes(unsigned* y) {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    y[threadIdx.x] = __ballot_sync(~0u, 1);  // line of the wait
  if (threadIdx.x != 3) __syncthreads();
}

__global__ void counts(int* y, const int* x) {
  int t = threadIdx.x, n = blockDim.x, i = blockIdx.x * n + t, all = gridDim.x * n;
  if (t >= n - 3) return;
  y[i] = __syncthreads_count(x[i]);
  y[all + i] = __syncthreads_and(x[i]);
  y[2 * all + i] = __syncthreads_or(x[i]);
}

__global__ void producer_consumer(int* y, int rounds) {
  // Warp 0 fills, warp 1 empties; barrier 1 is "full", barrier 2 is "empty".
  __shared__ int buffer[32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < rounds; i++) {
      asm volatile("bar.sync 2, 64;" ::: "memory");
      buffer[lane] = i * 100 + lane;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
  } else {
    for (int i = 0; i < rounds; i++) {
      asm volatile("bar.arrive 2, 64;" ::: "memory");
      asm volatile("bar.sync 1, 64;" ::: "memory");
      y[i * 32 + lane] = buffer[lane];
    }
  }
}

__global__ void numbered(int* y, int threads) {
  // A barrier's number and count come from registers: each pair of warps has its own barrier.
  __shared__ int s[128];
  int t = threadIdx.x, pair = t / 64;
  s[t] = t;
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(pair + 1), "r"(threads) : "memory");
  y[t] = s[t ^ 32];
}

__global__ void cluster_of_one(unsigned* y) {
  __shared__ unsigned s[32];
  unsigned t = threadIdx.x, rank, there, value;
  s[t] = t * t;
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  unsigned at = (unsigned)__cvta_generic_to_shared(&s[31 - t]);
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(0));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there));
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
  unsigned size, number;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  y[blockIdx.x * 32 + t] = value + 10000 * rank + 100000 * size + 1000000 * number;
}

__global__ void __cluster_dims__(2, 1, 1) pair_of_blocks(int* y) { y[threadIdx.x] = 1; }

__global__ void specialised(float* y) {
  // Whole warps diverge and exchange among their own lanes; the other warps are elsewhere.
  float v = threadIdx.x;
  if (threadIdx.x / 32 % 2)
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  else
    for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

__global__ void sleeps_for_ever(volatile int* y) {
  while (*y == 0) __nanosleep(10);
}
