// Streams of the simulated device; they are implemented in cudart/stream.c.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <ostream>
#include <tuple>

extern "C" {
void* sim_current_stream(void);
void sim_set_current_stream(void* stream);
void* sim_stream_from_pool(int priority);
}

namespace c10::cuda {

class CUDAStream {
 public:
  enum Unchecked { UNCHECKED };

  explicit CUDAStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(stream_.device_type() == DeviceType::CUDA);
  }
  explicit CUDAStream(Unchecked, Stream stream) : stream_(stream) {}
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
    C10_CUDA_CHECK(cudaStreamQuery(stream()));
    return true;
  }
  void synchronize() const {
    C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  }
  bool is_capturing() const {
    return false;
  }
  int priority() const {
    int priority = 0;
    C10_CUDA_CHECK(cudaStreamGetPriority(stream(), &priority));
    return priority;
  }
  cudaStream_t stream() const {
    return reinterpret_cast<cudaStream_t>(stream_.id());
  }
  Stream unwrap() const {
    return stream_;
  }
  struct c10::StreamData3 pack3() const {
    return stream_.pack3();
  }
  static CUDAStream unpack3(StreamId id, DeviceIndex device, DeviceType type) {
    return CUDAStream(Stream::unpack3(id, device, type));
  }
  // torch's own range, which is narrower than CUDA's.
  static std::tuple<int, int> priority_range() {
    return {0, -3};
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
inline CUDAStream getStreamFromPool(const int priority, DeviceIndex = -1) {
  return getStreamFromExternal(static_cast<cudaStream_t>(sim_stream_from_pool(priority)), 0);
}
inline CUDAStream getStreamFromPool(const bool is_high_priority = false, DeviceIndex = -1) {
  return getStreamFromPool(is_high_priority ? -3 : 0);
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  sim_set_current_stream(stream.stream());
}

inline std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) {
  return out << stream.unwrap();
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

namespace std {
template <>
struct hash<c10::cuda::CUDAStream> {
  size_t operator()(c10::cuda::CUDAStream stream) const noexcept {
    return std::hash<c10::Stream>{}(stream.unwrap());
  }
};
} // namespace std
