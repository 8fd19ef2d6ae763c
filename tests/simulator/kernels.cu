// Small kernels for test_machine.py.
#include <cstdint>

template <typename T, typename Index>
__global__ void conv_transpose(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y,
                               Index n, Index in, Index out, Index length, Index out_length,
                               Index kernel, Index stride, Index padding, Index dilation) {
  Index index = blockIdx.x * (Index)blockDim.x + threadIdx.x;
  if (index >= n * out * out_length) return;
  Index position = index % out_length, o = index / out_length % out, b = index / out_length / out;
  T sum = 0;
  for (Index i = 0; i < in; i++)
    for (Index k = 0; k < kernel; k++) {
      Index t = position + padding - k * dilation;
      if (t < 0 || t % stride) continue;
      t /= stride;
      if (t < length) sum += x[(b * in + i) * length + t] * w[(i * out + o) * kernel + k];
    }
  y[index] = sum;
}
template __global__ void conv_transpose<float, int>(const float*, const float*, float*, int, int,
                                                    int, int, int, int, int, int, int);
template __global__ void conv_transpose<double, int64_t>(const double*, const double*, double*,
                                                         int64_t, int64_t, int64_t, int64_t,
                                                         int64_t, int64_t, int64_t, int64_t,
                                                         int64_t);

__constant__ float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
__device__ int counter = 5;
__device__ float* into_table = table + 1;

__global__ void globals(float* y) {
  int t = threadIdx.x;
  y[t] = table[t & 3] + into_table[t & 1];
  atomicAdd(&counter, 2);
}

struct Pair {
  int a;
  float b[3];
  double c;
};
__device__ __noinline__ float helper(float x, int* i, Pair p) {
  *i += 1;
  return x * p.b[*i & 1] + (float)p.c;
}
__global__ void calls(float* y, Pair p) {
  int i = threadIdx.x;
  y[threadIdx.x] = helper((float)threadIdx.x, &i, p) + i;
}

__global__ void reverse(int* y) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[64];
  int t = threadIdx.x, last = blockDim.x - 1;
  fixed[t] = y[blockIdx.x * blockDim.x + t];
  __syncthreads();
  dynamic[t] = fixed[last - t] + 1000 * blockIdx.x;
  __syncthreads();
  y[blockIdx.x * blockDim.x + last - t] = dynamic[last - t];
}

__global__ void early_exit_then_barrier(int* y) {
  __shared__ int value;
  if (threadIdx.x >= 5) return;
  if (threadIdx.x == 3) value = 42;
  __syncthreads();
  y[threadIdx.x] = value;
}

__global__ void one_past_the_end(float* y, int n) {
  int t = threadIdx.x;
  if (t <= n) y[t] = t;  // line of the store
}

__global__ void copies(float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void collatz(int* steps, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  int count = 0;
  for (unsigned v = t + 1; v != 1; count++) v = v % 2 ? 3 * v + 1 : v / 2;
  steps[t] = count;
}

__global__ void where(int* y) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int threads = blockDim.x * blockDim.y * blockDim.z;
  y[block * threads + thread] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z +
                                1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z;
}

__global__ void vectors(float4* y, const float4* x) {
  float4 v = x[threadIdx.x];
  y[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}

__global__ void local_array(int* y, int n) {
  int a[8];
  for (int i = 0; i < 8; i++) a[i] = i * i + threadIdx.x;
  y[threadIdx.x] = a[(threadIdx.x + n) & 7];
}

__global__ void traps(int n) {
  if (threadIdx.x == n) __trap();
}
__global__ void allocates(void** y) { y[threadIdx.x] = malloc(16); }
