// Patterns of accesses to shared memory, for test_wavefronts.py and, with -DWITH_HOST, for
// benchmarks/shared_wavefronts.py, which counts on a GPU how many wavefronts each takes.
#include <cstdint>

constexpr int kElements = 1024;

// The element of a lane; -1 where the lane takes no part.
__device__ int element(int pattern, int lane) {
  switch (pattern) {
    case 0: return lane;                               // neighbours
    case 1: return 0;                                  // one for all
    case 2: return lane / 2;                           // partners 1 apart
    case 3: return lane / 4 * 2 + lane % 2;            // partners 2 apart
    case 4: return lane / 8 * 4 + lane % 4;            // partners 4 apart
    case 5: return lane % 16;                          // the halves alike
    case 6: return lane % 8;                           // the quarters alike
    case 7: return lane % 4;                           // four elements
    case 8: return lane % 2;                           // two elements
    case 9: return lane / 16;                          // one for each half
    case 10: return lane / 8;                          // one for each quarter
    case 11: return lane / 4;                          // one for four
    case 12: return lane * 2;                          // every second
    case 13: return lane * 3;                          // every third
    case 14: return lane * 32;                         // every 32nd
    case 15: return lane * 7 % 32;                     // permuted
    case 16: return lane % 8 * 4 + lane / 8;           // transposed
    case 17: return lane % 2 ? -1 : lane;              // even lanes
    case 18: return lane % 4 < 2 ? lane : -1;          // two of four lanes
    case 19: return lane < 8 ? lane : -1;              // a quarter
    case 20: return lane == 5 ? lane : -1;             // a single lane
    case 21: return lane % 15 == 0 && lane < 16 ? 4 : -1;   // lanes 0 and 15
    case 22: return lane == 15 || lane == 16 ? 4 : -1;      // lanes 15 and 16
    case 23:                                           // partners 1 apart, then 2 apart
      return lane < 16 ? lane / 8 * 2 + lane % 8 / 2 % 2 : lane / 8 * 2 + lane % 8 % 2;
    case 24:                                           // partners 1 apart that conflict
      return lane / 16 * 4 + lane % 16 / 8 + lane % 8 / 4 * 8;
    case 25: return lane / 2 * 32;                     // partners 1 apart in one bank
    case 26: return lane == 31 ? 100 : lane / 2;       // partners 1 apart but the last
  }
  return lane;
}

// One warp. Only the pattern's own access has the kind and size that is counted.
template <typename T>
__device__ void load(int pattern, T *out, const uint32_t *in) {
  __shared__ T room[kElements];
  uint32_t *words = reinterpret_cast<uint32_t *>(room);
  for (int i = threadIdx.x; i < sizeof room / 4; i += 32) words[i] = in[i];
  __syncwarp();
  const int at = element(pattern, threadIdx.x);
  if (at >= 0) out[threadIdx.x] = room[at];
}

template <typename T>
__device__ void store(int pattern, uint32_t *out, const T *in) {
  __shared__ T room[kElements];
  const T value = in[threadIdx.x];
  const int at = element(pattern, threadIdx.x);
  if (at >= 0) room[at] = value;
  __syncwarp();
  if (at >= 0) out[threadIdx.x] = reinterpret_cast<uint32_t *>(room + at)[0];
}

#define KERNELS(BYTES, TYPE)                                                           \
  extern "C" __global__ void load_##BYTES(int pattern, void *out, const void *in) {    \
    load(pattern, static_cast<TYPE *>(out), static_cast<const uint32_t *>(in));        \
  }                                                                                    \
  extern "C" __global__ void store_##BYTES(int pattern, void *out, const void *in) {   \
    store(pattern, static_cast<uint32_t *>(out), static_cast<const TYPE *>(in));       \
  }

KERNELS(4, uint32_t)
KERNELS(8, uint2)
KERNELS(16, uint4)

#ifdef WITH_HOST
#include <cstdio>
#include <cstdlib>

// Runs every kernel with each pattern, kernel by kernel.
int main(int, char **arguments) {
  void *in, *out;
  cudaMalloc(&in, kElements * 16);
  cudaMalloc(&out, 32 * 16);
  cudaMemset(in, 0, kElements * 16);
  for (auto kernel : {load_4, load_8, load_16, store_4, store_8, store_16})
    for (int pattern = 0; pattern < atoi(arguments[1]); pattern++)
      kernel<<<1, 32>>>(pattern, out, in);
  puts(cudaGetErrorString(cudaDeviceSynchronize()));
}
#endif
