// CUDA's own headers, as submissions include them. Each has a function of x = 0, 1, 2, ... 255.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#include <cub/cub.cuh>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <cuda_profiler_api.h>
#include <cudnn.h>
#include <cufft.h>
#include <cufftXt.h>
#include <curand.h>
#include <curand_kernel.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
#include <mma.h>
#include <nvtx3/nvToolsExt.h>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

#include <cuda/barrier>

namespace cg = cooperative_groups;

using Tensor = torch::Tensor;

__global__ void to_half_kernel(const float* x, float* y) {
  const __half2 pair = __floats2half2_rn(x[threadIdx.x], 1.0f);
  y[threadIdx.x] = __half2float(__hadd(__low2half(pair), __high2half(pair)));
}
__global__ void to_bfloat16_kernel(const float* x, float* y) {
  y[threadIdx.x] = __bfloat162float(__hmul(__float2bfloat16(x[threadIdx.x]), __float2bfloat16(2.0f)));
}
__global__ void to_fp8_kernel(const float* x, float* y) {
  y[threadIdx.x] = static_cast<float>(__nv_fp8_e4m3(x[threadIdx.x]));
}
__global__ void groups_kernel(const float* x, float* y) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  y[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
}
__global__ void group_copy_kernel(const float* x, float* y) {
  __shared__ float copied[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, copied, x, sizeof(copied));
  cg::wait(block);
  y[threadIdx.x] = copied[255 - threadIdx.x];
}
__global__ void block_reduce_kernel(const float* x, float* y) {
  using Reduce = cub::BlockReduce<float, 256>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}
__global__ void matrix_kernel(const float* x, float* y) {
  using namespace nvcuda;
  __shared__ __half a[256];
  for (int i = threadIdx.x; i < 256; i += 32) a[i] = __float2half(i % 17 == 0 ? 1.0f : 0.0f);
  __shared__ __half b[256];
  for (int i = threadIdx.x; i < 256; i += 32) b[i] = __float2half(x[i]);
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(y, sum, 16, wmma::mem_row_major);
}
__global__ void pipeline_kernel(const float* x, float* y) {
  __shared__ float copied[256];
  __pipeline_memcpy_async(&copied[threadIdx.x], &x[threadIdx.x], sizeof(float));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[threadIdx.x] = copied[threadIdx.x] + 1.0f;
}
__global__ void at_barrier_kernel(const float* x, float* y) {
  __shared__ float shared[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  shared[threadIdx.x] = x[threadIdx.x];
  barrier.arrive_and_wait();
  y[threadIdx.x] = shared[255 - threadIdx.x];
}
__global__ void random_kernel(float* y) {
  curandStatePhilox4_32_10_t state;
  curand_init(1234ULL, threadIdx.x, 0, &state);
  y[threadIdx.x] = curand_uniform(&state);
}
__global__ void xorwow_kernel(float* y) {
  curandState state;
  curand_init(1234ULL, threadIdx.x, 0, &state);
  y[threadIdx.x] = curand_normal(&state);
}
__global__ void constants_kernel(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] == 0.0f ? CUDART_INF_F : CUDART_PI_F;
}

#define ON_BLOCK(name, threads)                                           \
  Tensor name(Tensor x) {                                                 \
    auto y = torch::zeros_like(x);                                        \
    name##_kernel<<<1, threads>>>(x.data_ptr<float>(), y.data_ptr<float>()); \
    return y;                                                             \
  }
ON_BLOCK(to_half, 256)
ON_BLOCK(to_bfloat16, 256)
ON_BLOCK(to_fp8, 256)
ON_BLOCK(groups, 256)
ON_BLOCK(group_copy, 256)
ON_BLOCK(block_reduce, 256)
ON_BLOCK(matrix, 32)
ON_BLOCK(pipeline, 256)
ON_BLOCK(at_barrier, 256)
ON_BLOCK(constants, 256)

Tensor random_numbers(Tensor x) {
  auto y = torch::zeros_like(x);
  random_kernel<<<1, 256>>>(y.data_ptr<float>());
  return y;
}
Tensor xorwow(Tensor x) {
  auto y = torch::zeros_like(x);
  xorwow_kernel<<<1, 256>>>(y.data_ptr<float>());
  return y;
}

Tensor device_reduce(Tensor x) {
  auto y = torch::zeros({1}, x.options());
  size_t bytes = 0;
  const auto *in = x.data_ptr<float>();
  cub::DeviceReduce::Sum(nullptr, bytes, in, y.data_ptr<float>(), x.numel());
  auto scratch = torch::empty({static_cast<int64_t>(bytes)}, x.options().dtype(torch::kUInt8));
  cub::DeviceReduce::Sum(scratch.data_ptr(), bytes, in, y.data_ptr<float>(), x.numel());
  return y;
}

Tensor thrust_transform(Tensor x) {
  auto y = torch::zeros_like(x);
  auto in = thrust::device_pointer_cast(x.data_ptr<float>());
  auto out = thrust::device_pointer_cast(y.data_ptr<float>());
  thrust::transform(thrust::device, in, in + x.numel(), out, [] __device__(float v) { return 3 * v; });
  return y;
}
double thrust_reduce(Tensor x) {
  auto in = thrust::device_pointer_cast(x.data_ptr<float>());
  return thrust::reduce(thrust::device, in, in + x.numel());
}

Tensor marked(Tensor x) {
  nvtxRangePushA("marked");
  cudaProfilerStart();
  auto y = to_half(x);
  cudaProfilerStop();
  nvtxRangePop();
  return y;
}

// Creating handles and descriptors is not reported. A function that computes is reported by name.
int64_t prepared() {
  cublasHandle_t blas;
  cublasLtHandle_t light;
  cudnnHandle_t dnn;
  cudnnTensorDescriptor_t tensor;
  cusparseHandle_t sparse;
  cusolverDnHandle_t solver;
  cufftHandle fft;
  curandGenerator_t generator;
  return cublasCreate(&blas) + cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH) +
         cublasDestroy(blas) + cublasLtCreate(&light) + cudnnCreate(&dnn) +
         cudnnCreateTensorDescriptor(&tensor) +
         cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 3, 4) +
         cusparseCreate(&sparse) + cusolverDnCreate(&solver) + cufftPlan1d(&fft, 256, CUFFT_C2C, 1) +
         curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT);
}
void call_blas(Tensor x) {
  cublasHandle_t handle;
  cublasCreate(&handle);
  const double one = 1.0, zero = 0.0;
  double* p = reinterpret_cast<double*>(x.data_ptr<float>());
  cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, 8, 8, 8, &one, p, 8, p, 8, &zero, p, 8);
}
// Rows of 16: [A B, A B' + 2 C, A' B, (A' v, A v)]. A and B are the first 2 x 3 and 3 x 2 numbers,
// stored by columns. C is four ones, and v the first numbers.
Tensor products(Tensor x) {
  cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
  auto out = torch::ones({4, 16}, x.options());
  float *a = x.data_ptr<float>(), *b = a + 6, *to = out.data_ptr<float>();
  const float one = 1.0f, zero = 0.0f, two = 2.0f;
  const auto N = CUBLAS_OP_N, T = CUBLAS_OP_T;
  int status = cublasSgemm(handle, N, N, 2, 2, 3, &one, a, 2, b, 3, &zero, to, 2);
  status += cublasSgemm_v2(handle, N, T, 2, 2, 3, &one, a, 2, b, 2, &two, to + 16, 2);
  status += cublasSgemmStridedBatched(handle, T, N, 1, 2, 3, &one, a, 3, 6, b, 3, 0, &zero, to + 32, 1,
                                      2, 2);
  status += cublasSgemv(handle, T, 2, 3, &one, a, 2, a, 1, &zero, to + 48, 1);
  status += cublasSgemv(handle, N, 2, 3, &one, a, 2, a, 2, &zero, to + 51, 2);
  TORCH_CHECK(!status && cublasSgemm(handle, N, N, 4, 2, 3, &one, a, 2, b, 3, &zero, to, 4) ==
                             CUBLAS_STATUS_INVALID_VALUE);
  return out;
}
void call_dnn() { cudnnConvolutionForward(nullptr, nullptr); }
void call_sparse() { cusparseSpMV(nullptr, CUSPARSE_OPERATION_NON_TRANSPOSE); }
void call_solver() { cusolverDnSgetrf(nullptr, 1, 1); }
void call_fft() { cufftExecC2C(1, nullptr, nullptr, CUFFT_FORWARD); }
void call_random() { curandGenerateUniform(nullptr, nullptr, 256); }
