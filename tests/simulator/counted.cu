// Access patterns whose counts are known by hand, for test_counters.py.

extern "C" __global__ void strided(const float* x, float* y, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * stride];
}

extern "C" __global__ void copy_quads(const float4* x, float4* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

extern "C" __global__ void shared_stride(int* y, int stride) {
  extern __shared__ int room[];
  room[threadIdx.x * stride] = threadIdx.x;  // store
  __syncthreads();
  y[threadIdx.x] = room[threadIdx.x * stride];
}

extern "C" __global__ void shared_vectors(float4* y, int stride) {
  extern __shared__ float4 quads[];
  quads[threadIdx.x * stride] = make_float4(1, 2, 3, 4);
  __syncthreads();
  y[threadIdx.x] = quads[threadIdx.x * stride];
}

extern "C" __global__ void arithmetic(float* y, double* z, float a, double b) {
  int i = threadIdx.x;
  float v = y[i];
  v = __fmaf_rn(v, a, a);
  v = __fadd_rn(v, a);
  v = __fmul_rn(v, a);
  y[i] = v;
  z[i] = __fma_rn(z[i], b, b);
}

extern "C" __global__ void divergent(int* y, int limit) {
  int i = threadIdx.x, sum = 0;
  if (i % 32 < limit)  // part
    for (int k = 0; k < 100; k++) sum = atomicAdd(&y[64 + i], sum);
  y[i] = sum;
}
