// Access patterns whose counts follow from the code, for test_counters.py.
#include <cuda_fp16.h>
#include <mma.h>

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

// ---- Matrix instructions and asynchronous copies

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Rows of four matrices, `pitch` bytes apart.
extern "C" __global__ void load_matrices(unsigned* y, int pitch) {
  extern __shared__ __align__(128) unsigned char matrices[];
  for (int i = threadIdx.x; i < 32 * pitch / 4; i += 32) ((unsigned*)matrices)[i] = i;
  __syncwarp();
  unsigned a, b, c, d, row = shared_address(matrices + threadIdx.x * pitch);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // rows
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row));
  y[threadIdx.x] = a + b + c + d;
}

extern "C" __global__ void copy_async(const float4* x, float4* y, int stride) {
  extern __shared__ __align__(128) float4 copied[];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(shared_address(copied + threadIdx.x)), "l"(x + threadIdx.x * stride) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  y[threadIdx.x] = copied[threadIdx.x];
}

extern "C" __global__ void copy_bulk(const float* x, float* y) {
  extern __shared__ __align__(128) float tile[];
  __shared__ unsigned long long full;
  unsigned barrier = shared_address(&full), at = shared_address(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1040;" :: "r"(barrier));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], 1040, [%2];" :: "r"(at), "l"(x), "r"(barrier) : "memory");
    int done;
    do {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                   " selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
    } while (!done);
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1040;"
                 :: "l"(y), "r"(at) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

using namespace nvcuda::wmma;

template <typename Layout>
__device__ void multiply(const __half* x, float* y, layout_t layout) {
  extern __shared__ __align__(128) __half halves[];
  for (int i = threadIdx.x; i < 256; i += 32) halves[i] = x[i];
  __syncwarp();
  fragment<matrix_a, 16, 16, 16, __half, row_major> a;
  fragment<matrix_b, 16, 16, 16, __half, Layout> b;
  fragment<accumulator, 16, 16, 16, float> c;
  load_matrix_sync(a, halves, 16);  // from shared memory
  load_matrix_sync(b, x, 16);  // from global memory
  fill_fragment(c, 0.0f);
  mma_sync(c, a, b, c);
  store_matrix_sync(y, c, 16, layout);  // sums
}

extern "C" __global__ void wmma_rows(const __half* x, float* y) {
  multiply<row_major>(x, y, mem_row_major);
}
extern "C" __global__ void wmma_columns(const __half* x, float* y) {
  multiply<col_major>(x, y, mem_col_major);
}

extern "C" __global__ void warpgroup(float* y) {
  extern __shared__ __align__(128) unsigned words[];
  for (int i = threadIdx.x; i < 640; i += 128) words[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  unsigned long long layout = 128ull >> 4 << 16 | 256ull >> 4 << 32;
  unsigned long long a = shared_address(words) >> 4 | layout;
  unsigned long long b = shared_address(words + 512) >> 4 | layout;
  float d[8] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                 "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  y[threadIdx.x] = d[0] + d[7];
}
