// The device's properties. The handles of cuBLAS, cuSPARSE and cuSOLVER are only declared: a
// submission that asks for one computes with a library instead of its own kernel, and is told the
// name of what is missing when it is loaded.
#pragma once

#include <ATen/cuda/Exceptions.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

struct cublasContext;
struct cublasLtContext;
struct cusparseContext;
struct cusolverDnContext;
typedef struct cublasContext* cublasHandle_t;
typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusolverDnContext* cusolverDnHandle_t;

namespace at::cuda {

using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::set_device;

inline int64_t getNumGPUs() {
  return 1;
}
inline bool is_available() {
  return true;
}
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex = 0) {
  static cudaDeviceProp properties = [] {
    cudaDeviceProp p;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&p, 0));
    return p;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() {
  return getDeviceProperties();
}
inline int warp_size() {
  return getCurrentDeviceProperties()->warpSize;
}
inline bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) {
  return false;
}
inline c10::Allocator* getCUDADeviceAllocator() {
  return c10::GetAllocator(c10::DeviceType::CUDA);
}

cublasHandle_t getCurrentCUDABlasHandle(bool setup = true);
cublasLtHandle_t getCurrentCUDABlasLtHandle();
cusparseHandle_t getCurrentCUDASparseHandle();
cusolverDnHandle_t getCurrentCUDASolverDnHandle();

} // namespace at::cuda
