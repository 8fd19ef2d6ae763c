// Streams of the simulated device, where all work is done at once and in program order.
#pragma once

#include <c10/core/Stream.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

extern "C" {
void* sim_current_stream(void);
void sim_set_current_stream(void* stream);
}

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(stream_.device_type() == DeviceType::CUDA);
  }
  bool operator==(const CUDAStream& other) const noexcept {
    return unwrap() == other.unwrap();
  }
  bool operator!=(const CUDAStream& other) const noexcept {
    return unwrap() != other.unwrap();
  }
  operator cudaStream_t() const {
    return stream();
  }
  operator Stream() const {
    return unwrap();
  }
  DeviceType device_type() const {
    return DeviceType::CUDA;
  }
  DeviceIndex device_index() const {
    return 0;
  }
  Device device() const {
    return Device(DeviceType::CUDA, 0);
  }
  StreamId id() const {
    return stream_.id();
  }
  bool query() const {
    return true;
  }
  void synchronize() const {}
  int priority() const {
    return 0;
  }
  cudaStream_t stream() const {
    return reinterpret_cast<cudaStream_t>(stream_.id());
  }
  Stream unwrap() const {
    return stream_;
  }

 private:
  Stream stream_;
};

inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return CUDAStream(Stream(
      Stream::UNSAFE, Device(DeviceType::CUDA, 0), reinterpret_cast<StreamId>(stream)));
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) {
  return getStreamFromExternal(nullptr, 0);
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) {
  return getStreamFromExternal(static_cast<cudaStream_t>(sim_current_stream()), 0);
}
inline CUDAStream getStreamFromPool(const bool = false, DeviceIndex = -1) {
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreate(&stream));
  return getStreamFromExternal(stream, 0);
}
inline CUDAStream getStreamFromPool(const int, DeviceIndex = -1) {
  return getStreamFromPool(false);
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  sim_set_current_stream(stream.stream());
}

} // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromExternal;
using c10::cuda::getStreamFromPool;
using c10::cuda::setCurrentCUDAStream;
} // namespace at::cuda
