// The device's properties. The handles of cuBLAS, cuSPARSE and cuSOLVER are left out: a submission
// that asks for one computes with a library instead of its own kernel.
#pragma once

#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace at::cuda {

using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::set_device;

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

} // namespace at::cuda
