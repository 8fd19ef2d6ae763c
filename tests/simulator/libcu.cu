// Asynchronous copies through libcu++ and cooperative groups, for test_async.py.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cg = cooperative_groups;
namespace cde = cuda::device::experimental;

#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void bulk_and_barrier(float *out, const float *in) {
  __shared__ alignas(128) float tile[256];
  __shared__ barrier full;
  if (threadIdx.x == 0) {
    init(&full, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_global_to_shared(tile, in, 1024, full);
    token = cuda::device::barrier_arrive_tx(full, 1, 1024);
  } else {
    token = full.arrive();
  }
  full.wait(std::move(token));
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void pipeline(float *out, const float *in) {
  __shared__ float tile[256];
  auto pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  cuda::memcpy_async(&tile[threadIdx.x], in + threadIdx.x, cuda::aligned_size_t<4>(4), pipe);
  pipe.producer_commit();
  pipe.consumer_wait();
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
  pipe.consumer_release();
}

__global__ void group(float *out, const float *in) {
  __shared__ alignas(16) float tile[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, in, 1024);
  cg::wait(block);
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void copy_and_barrier(float *out, const float *in) {
  __shared__ float tile[256];
  __shared__ barrier full;
  if (threadIdx.x == 0) init(&full, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(&tile[threadIdx.x], in + threadIdx.x, cuda::aligned_size_t<4>(4), full);
  full.arrive_and_wait();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
