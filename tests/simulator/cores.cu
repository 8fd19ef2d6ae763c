// Kernels whose blocks do, or do not, care in which order they run. All have blocks of 256 threads.
#include <cstdint>
#include <cstdio>

#define INDEX (blockIdx.x * 256 + threadIdx.x)

// Blocks that have nothing to do with one another.

__global__ void scaled(const float* x, float* y) { y[INDEX] = 2 * x[INDEX] + 1; }

__global__ void in_place(const float*, float* y) { y[INDEX] = sqrtf(y[INDEX] + 1); }

__global__ void block_sums(const float* x, float* y) {
  __shared__ float part[256];
  part[threadIdx.x] = x[INDEX];
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (!threadIdx.x) y[blockIdx.x] = part[0];
}

// Threads of many kinds: strides, divergence and conflicts differ from block to block.
__global__ void uneven(const float* x, float* y) {
  __shared__ float rows[256 * 4];
  int step = 1 + blockIdx.x % 4;
  rows[threadIdx.x * step] = x[(INDEX * step) % (gridDim.x * 256)];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i <= (threadIdx.x + blockIdx.x) % 7; i++) sum += rows[threadIdx.x * step] * i;
  y[INDEX] = sum;
}

// Blocks that do.

__global__ void shifted(const float*, float* y) {
  y[INDEX] = y[(INDEX + 256) % (gridDim.x * 256)] + 1;
}

// Blocks far apart, which hardly one process runs all of.
__global__ void mirrored(const float*, float* y) { y[INDEX] = y[gridDim.x * 256 - 1 - INDEX] + 1; }

// The same, and not a race.
__global__ void mirrored_volatile(const float*, float* y) {
  volatile float* values = y;
  values[INDEX] = values[gridDim.x * 256 - 1 - INDEX] + 1;
}

__global__ void one_winner(const float*, float* y) { y[threadIdx.x] = blockIdx.x; }

__global__ void added(const float*, float* y) { atomicAdd(y, 1.0f); }

__global__ void counted(const float*, float* y) { y[atomicAdd((int*)y, 1) + 1] = blockIdx.x; }

__global__ void relayed(const float*, float* y) {
  volatile float* flag = y;
  if (blockIdx.x && !threadIdx.x)
    while (flag[blockIdx.x - 1] == 0) {
    }
  __syncthreads();
  if (!threadIdx.x) flag[blockIdx.x] = flag[blockIdx.x ? blockIdx.x - 1 : 0] + 1;
}

// Things that are told in the order of blocks.

__global__ void past_the_end(const float* x, float* y) {
  y[INDEX] = x[INDEX + (blockIdx.x == gridDim.x - 2 || blockIdx.x == 3)];
  if (INDEX == 0) y[gridDim.x * 256] = 0;
}

__global__ void unwritten(const float*, float* y) { y[INDEX] = y[INDEX] + 1; }

__global__ void printed(const float*, float* y) {
  y[INDEX] = 1;
  if (!threadIdx.x) printf("block %d\n", blockIdx.x);
}

__global__ void timed(const float*, float* y) { y[INDEX] = clock64() % 1000; }

__global__ void trapped(const float*, float* y) {
  y[INDEX] = 1;
  if (blockIdx.x == gridDim.x / 2) __trap();
}

// Stores that cannot be seen from the arguments: through a pointer put together from two numbers.
__global__ void smuggled(const float*, const uint32_t* halves) {
  float* y = (float*)((uint64_t)halves[1] << 32 | halves[0]);
  y[INDEX] = y[(INDEX + 256) % (gridDim.x * 256)] + 1;
}
