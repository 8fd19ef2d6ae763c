// Kernels whose results do, or do not, depend on the order of their blocks of 256 threads.
#include <cstdint>
#include <cstdio>

#define INDEX (blockIdx.x * 256 + threadIdx.x)

// ---- Independent blocks

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

// Strides, divergence and bank conflicts differ from block to block.
__global__ void uneven(const float* x, float* y) {
  __shared__ float rows[256 * 4];
  int step = 1 + blockIdx.x % 4;
  rows[threadIdx.x * step] = x[(INDEX * step) % (gridDim.x * 256)];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i <= (threadIdx.x + blockIdx.x) % 7; i++) sum += rows[threadIdx.x * step] * i;
  y[INDEX] = sum;
}

// Copies a block's part from `from` to y through shared memory, by two bulk copies, and adds 1.
__device__ void through_shared(const float* from, float* y) {
  __shared__ alignas(128) float tile[256];
  __shared__ uint64_t full;
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(&full));
  if (!threadIdx.x) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier));
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(barrier));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], 1024, [%2];" :: "r"(at), "l"(from), "r"(barrier) : "memory");
  }
  __syncthreads();
  int done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                 " selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
  } while (!done);
  tile[threadIdx.x] += 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (!threadIdx.x)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
                 :: "l"(y + INDEX), "r"(at) : "memory");
}

__global__ void bulk(const float* x, float* y) { through_shared(x + INDEX, y); }

// ---- Blocks that depend on other blocks

__global__ void bulk_mirrored(const float*, float* y) {
  through_shared(y + gridDim.x * 256 - 256 - blockIdx.x * 256, y);
}

__global__ void shifted(const float*, float* y) {
  y[INDEX] = y[(INDEX + 256) % (gridDim.x * 256)] + 1;
}

// Each block reads a block far away, which another process most likely runs.
__global__ void mirrored(const float*, float* y) { y[INDEX] = y[gridDim.x * 256 - 1 - INDEX] + 1; }

// Volatile accesses make this the same computation without a race.
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

// ---- Findings, output and clocks, which are reported in the order of blocks

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

// Stores through a pointer assembled from two numbers, so that no argument points to them.
__global__ void smuggled(const float*, const uint32_t* halves) {
  float* y = (float*)((uint64_t)halves[1] << 32 | halves[0]);
  y[INDEX] = y[(INDEX + 256) % (gridDim.x * 256)] + 1;
}
