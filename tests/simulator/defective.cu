// Kernels with one mistake each, and some without, for the simulator and for compute-sanitizer.
// All take n initialised floats, n floats that nothing wrote, and n; a line that is wrong ends in
// a comment that names the tool which is to find it. The host program at the end runs one of them.
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

#define KERNEL(name) extern "C" __global__ void name(const float* in, float* out, int n)

KERNEL(store_past_end) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;  // memcheck
}

KERNEL(load_before_start) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i - 8192];  // memcheck
}

KERNEL(misaligned_vector) {
  if (threadIdx.x > 0) return;
  float4 v = *(const float4*)(in + 1);  // memcheck
  out[0] = v.x + v.y + v.z + v.w;
}

KERNEL(null_pointer) {
  float* target = (float*)(unsigned long long)(n - 128);
  target[threadIdx.x] = in[threadIdx.x];  // memcheck
}

KERNEL(shared_past_end) {
  extern __shared__ float tile[];
  tile[threadIdx.x + 4096] = in[threadIdx.x];  // memcheck
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(wild_pointer) {
  const float* source = (const float*)((unsigned long long)in + ((unsigned long long)n << 40));
  out[threadIdx.x] = source[threadIdx.x];  // memcheck
}

KERNEL(reads_uninitialised) {
  int i = threadIdx.x;
  out[i] = out[i] + in[i];  // initcheck
}

KERNEL(reads_past_what_was_written) {
  int i = threadIdx.x;
  if (i < 32) out[i] = in[i];
  float next = i < 32 ? out[i + 32] : 0.0f;  // initcheck
  if (next == 12345.0f) out[i] = next;
}

KERNEL(missing_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];  // racecheck
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL(missing_second_barrier) {
  __shared__ float tile[128];
  float sum = 0.0f;
  for (int s = 0; s < 4; s++) {
    tile[threadIdx.x] = in[threadIdx.x] + s;  // racecheck
    __syncthreads();
    sum += tile[127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

KERNEL(two_writers) {
  __shared__ float total;
  total = in[threadIdx.x];  // racecheck
  __syncthreads();
  out[threadIdx.x] = total;
}

KERNEL(reduction_without_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int step = 64; step > 0; step /= 2)
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];  // racecheck
  if (threadIdx.x == 0) out[0] = tile[0];
}

KERNEL(barrier_in_a_branch) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 2) __syncthreads();  // synccheck
  out[threadIdx.x] = tile[threadIdx.x];
}

KERNEL(caller_not_in_mask) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 16) __syncwarp(0xffff0000u);  // synccheck
}

KERNEL(clean_copy) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

KERNEL(clean_reduction) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  for (int step = 64; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];
  }
  if (threadIdx.x == 0) out[0] = tile[0];
}

KERNEL(clean_reversal) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

#ifdef WITH_HOST
struct Entry {
  const char* name;
  void (*kernel)(const float*, float*, int);
};

#define ENTRY(name) {#name, name}

static const Entry entries[] = {
    ENTRY(store_past_end),      ENTRY(load_before_start),
    ENTRY(misaligned_vector),   ENTRY(null_pointer),
    ENTRY(shared_past_end),     ENTRY(wild_pointer),
    ENTRY(reads_uninitialised), ENTRY(reads_past_what_was_written),
    ENTRY(missing_barrier),     ENTRY(missing_second_barrier),
    ENTRY(two_writers),         ENTRY(reduction_without_barrier),
    ENTRY(barrier_in_a_branch), ENTRY(caller_not_in_mask),
    ENTRY(clean_copy),          ENTRY(clean_reduction),
    ENTRY(clean_reversal),
};

int main(int, char** arguments) {
  const int n = 128;
  float host[n], *in, *out;
  for (int i = 0; i < n; i++) host[i] = i;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  for (const Entry& entry : entries)
    if (!strcmp(entry.name, arguments[1])) {
      int blocks = !strcmp(entry.name, "store_past_end") ? 2 : 1;
      entry.kernel<<<blocks, n, 1024>>>(in, out, n);
      printf("%s: %s\n", entry.name, cudaGetErrorString(cudaDeviceSynchronize()));
    }
  return 0;
}
#endif
