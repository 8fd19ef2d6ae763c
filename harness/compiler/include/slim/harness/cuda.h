// Streams, guards and checks of CUDA calls, under torch's names; there is one device.
#pragma once

#include <harness/check.h>

#include <cuda_runtime_api.h>

extern "C" {
void* sim_current_stream(void);
void sim_set_current_stream(void* stream);
void* sim_stream_from_pool(int priority);
}

#define C10_CUDA_CHECK(EXPR) \
  ::harness_slim::check_cuda((EXPR), __func__, __FILE__, static_cast<uint32_t>(__LINE__))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

namespace harness_slim {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  bool operator==(const CUDAStream& other) const noexcept {
    return stream_ == other.stream_;
  }
  bool operator!=(const CUDAStream& other) const noexcept {
    return stream_ != other.stream_;
  }
  operator cudaStream_t() const {
    return stream_;
  }
  cudaStream_t stream() const {
    return stream_;
  }
  c10::DeviceIndex device_index() const {
    return 0;
  }
  c10::Device device() const {
    return {c10::kCUDA, 0};
  }
  bool query() const {
    C10_CUDA_CHECK(cudaStreamQuery(stream_));
    return true;
  }
  void synchronize() const {
    C10_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }

 private:
  cudaStream_t stream_;
};

inline CUDAStream getDefaultCUDAStream(c10::DeviceIndex = -1) {
  return CUDAStream(nullptr);
}
inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex = -1) {
  return CUDAStream(static_cast<cudaStream_t>(sim_current_stream()));
}
inline CUDAStream getStreamFromPool(int priority, c10::DeviceIndex = -1) {
  return CUDAStream(static_cast<cudaStream_t>(sim_stream_from_pool(priority)));
}
inline CUDAStream getStreamFromPool(bool is_high_priority = false, c10::DeviceIndex = -1) {
  return getStreamFromPool(is_high_priority ? -3 : 0);
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  sim_set_current_stream(stream.stream());
}

inline c10::DeviceIndex device_count() {
  return 1;
}
inline c10::DeviceIndex current_device() {
  return 0;
}
inline void set_device(c10::DeviceIndex device) {
  C10_CUDA_CHECK(cudaSetDevice(device));
}
inline void device_synchronize() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
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

// There is one device, so a guard only checks that the argument is device 0.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<c10::Device> device) {
    if (device)
      set_device(*device);
  }
  explicit OptionalCUDAGuard(c10::DeviceIndex index) {
    set_index(index);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  void set_device(c10::Device device) {
    guard_cuda(device.place());
  }
  void set_index(c10::DeviceIndex index) {
    set_device({c10::kCUDA, index});
  }
};

class CUDAGuard : public OptionalCUDAGuard {
 public:
  explicit CUDAGuard(c10::DeviceIndex index) : OptionalCUDAGuard(index) {}
  explicit CUDAGuard(c10::Device device) : OptionalCUDAGuard(device) {}
};

} // namespace harness_slim

namespace c10::cuda {
using harness_slim::CUDAGuard;
using harness_slim::CUDAStream;
using harness_slim::current_device;
using harness_slim::device_count;
using harness_slim::device_synchronize;
using harness_slim::getCurrentCUDAStream;
using harness_slim::getDefaultCUDAStream;
using harness_slim::getStreamFromPool;
using harness_slim::OptionalCUDAGuard;
using harness_slim::set_device;
using harness_slim::setCurrentCUDAStream;
} // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
using harness_slim::getCurrentDeviceProperties;
using harness_slim::getDeviceProperties;
} // namespace at::cuda
