// Kernels with and without races, for test_racecheck.py. Defining BARRIER_n removes a barrier.
#include <cuda_fp16.h>

#ifndef BARRIER_1
#define BARRIER_1 __syncthreads()
#endif
#ifndef BARRIER_2
#define BARRIER_2 __syncthreads()
#endif
#ifndef WARP_BARRIER
#define WARP_BARRIER __syncwarp()
#endif

#ifndef FENCE
#define FENCE __threadfence()
#endif

constexpr int TILE = 16;

// c = a * b, square matrices of side n.
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < n; start += TILE) {
    as[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];      // store a
    bs[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];  // store b
    BARRIER_1;
    for (int k = 0; k < TILE; k++)
      sum += as[threadIdx.y][k] *   // load a
             bs[k][threadIdx.x];    // load b
    BARRIER_2;
  }
  c[row * n + column] = sum;
}

// Two buffers, and one barrier in each step.
extern "C" __global__ void double_buffered(const float* x, float* y, int steps) {
  __shared__ float buffer[2][64];
  int t = threadIdx.x;
  float sum = 0;
  buffer[0][t] = x[t];
  for (int s = 0; s < steps; s++) {
    BARRIER_1;
    if (s + 1 < steps) buffer[(s + 1) % 2][t] = x[(s + 1) * 64 + t];
    sum += buffer[s % 2][63 - t];
  }
  y[t] = sum;
}

// A sum over each warp through shared memory.
extern "C" __global__ void warp_sum_shared(int* y) {
  __shared__ volatile int room[64];
  int t = threadIdx.x, lane = t % 32;
  room[t] = t;
  WARP_BARRIER;
  for (int distance = 16; distance > 0; distance /= 2) {
    int other = lane < distance ? room[t + distance] : 0;
    WARP_BARRIER;
    if (lane < distance) room[t] = room[t] + other;
    WARP_BARRIER;
  }
  if (lane == 0) y[t / 32] = room[t];
}

extern "C" __global__ void histogram(const int* x, int* counts) {
  __shared__ int room[8];
  if (threadIdx.x < 8) room[threadIdx.x] = 0;
  BARRIER_1;
  atomicAdd(&room[x[threadIdx.x] & 7], 1);  // count
  BARRIER_2;
  if (threadIdx.x < 8) atomicAdd(&counts[threadIdx.x], room[threadIdx.x]);
}

extern "C" __global__ void one_word(int* y, int different) {
  if (threadIdx.x == 0) y[0] = different ? blockIdx.x : 7;
}

extern "C" __global__ void neighbours(float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float next = y[i + 1];
  y[i] = next + 1;
}

extern "C" __global__ void own_element(float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = y[i] + 1;
}

// All threads read a word that thread 0 then overwrites.
extern "C" __global__ void read_by_all(float* y, float* out) {
  out[threadIdx.x] = y[0];
  if (threadIdx.x == 0) y[0] = 5;
}

// The first warp reads a word twice. The second warp overwrites it without a barrier in between.
extern "C" __global__ void read_again(float* y) {
  __shared__ float shared;
  if (threadIdx.x == 0) shared = 1;
  __syncthreads();
  if (threadIdx.x < 32) y[threadIdx.x] = shared;
  __syncthreads();
  if (threadIdx.x < 32) y[32 + threadIdx.x] = shared;  // read again
  if (threadIdx.x == 32) shared = 2;                   // beside it
}

extern "C" __global__ void plain_and_atomic(int* y, int* out) {
  atomicAdd(y, 1);
  if (threadIdx.x == 0) out[blockIdx.x] = *(volatile int*)y;
  if (threadIdx.x == 1) out[2 + blockIdx.x] = y[0];
}

// The last block to finish sums the results of all blocks.
extern "C" __global__ void last_block(const float* x, float* parts, unsigned* done, float* y,
                                      int fence) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x[blockIdx.x];
    if (fence) fence == 1 ? __threadfence() : __threadfence_block();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 1) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile float*)parts)[i];
    *y = sum;
  }
}

// Every block except the last waits for the next one.
extern "C" __global__ void next_block(float* parts, unsigned* flags, float* y) {
  __shared__ float room[64];
  int t = threadIdx.x, b = blockIdx.x;
  room[t] = t + 64 * b;
  BARRIER_1;
  parts[64 * b + t] = room[63 - t];  // hand over
  __syncthreads();
  if (t == 0) {
    FENCE;
    atomicExch(&flags[b], 1);
    while (b + 1 < gridDim.x && !*(volatile unsigned*)&flags[b + 1]);
  }
  __syncthreads();
  if (b + 1 < gridDim.x) y[64 * b + t] = parts[64 * (b + 1) + t];  // take over
}

extern "C" __global__ void halves(__half* y) {
  __shared__ __half room[64];
  room[threadIdx.x] = __float2half(threadIdx.x);
  y[threadIdx.x] = room[threadIdx.x];
}

// Producer warps write and consumer warps read; they share barrier 1.
extern "C" __global__ void named_barrier(int* y) {
  __shared__ int room[64];
  int t = threadIdx.x;
  if (t < 64) {
    room[t] = t;
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else if (t < 128) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    y[t - 64] = room[127 - t];
  } else {
    y[t - 64] = 0;
  }
}

extern "C" __global__ void through_memory(float** where) {
  float* y = *where;
  y[threadIdx.x / 2] = threadIdx.x;
}

// Each block stores numbers and reads them again behind a barrier, or beforehand with `first`.
extern "C" __global__ void read_only(float* y, float* out, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = blockDim.x - 1 - threadIdx.x;
  if (first) out[i] = __ldg(y + i);
  y[i] = i;  // written
  __syncthreads();
  if (!first) out[i] = __ldg(y + blockIdx.x * blockDim.x + t);  // read only
}

// A reduction whose loop lacks a barrier at its end, by 128 threads.
extern "C" __global__ void halving(const float* x, float* y) {
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    for (int half = 64; half > 16; half /= 2) {
        if (t < half) part[t] += part[t + half]; // halved
    }
    __syncthreads();
    if (t == 0) y[0] = part[0];
}
