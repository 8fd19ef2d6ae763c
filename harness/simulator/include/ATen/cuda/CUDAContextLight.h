// The device's properties, and handles of CUDA's libraries, which exist by name only.
#pragma once

#include <ATen/cuda/Exceptions.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <cusparse.h>

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
  // Not cached: a case may simulate a device with fewer multiprocessors.
  static thread_local cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
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

inline cublasHandle_t getCurrentCUDABlasHandle(bool = true) {
  static thread_local cublasContext handle;
  handle.stream = c10::cuda::getCurrentCUDAStream();
  return &handle;
}
inline cublasLtHandle_t getCurrentCUDABlasLtHandle() {
  return reinterpret_cast<cublasLtHandle_t>(getCurrentCUDABlasHandle());
}
inline cusparseHandle_t getCurrentCUDASparseHandle() {
  cusparseHandle_t handle;
  cusparseCreate(&handle);
  return handle;
}
inline cusolverDnHandle_t getCurrentCUDASolverDnHandle() {
  cusolverDnHandle_t handle;
  cusolverDnCreate(&handle);
  return handle;
}

} // namespace at::cuda
