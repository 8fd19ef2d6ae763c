// Device queries of the one simulated device.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDAException.h>

namespace c10::cuda {

inline DeviceIndex device_count() noexcept {
  return 1;
}
inline DeviceIndex device_count_ensure_non_zero() {
  return 1;
}
inline DeviceIndex current_device() {
  return 0;
}
inline void set_device(DeviceIndex device) {
  C10_CUDA_CHECK(cudaSetDevice(device));
}
inline void device_synchronize() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

} // namespace c10::cuda
