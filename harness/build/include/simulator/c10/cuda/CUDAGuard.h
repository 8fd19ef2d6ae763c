// Guards of the one simulated device and of its current stream.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

namespace c10::cuda {

struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex device) {
    set_device(device);
  }
  explicit CUDAGuard(Device device) {
    TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
    set_device(device.has_index() ? device.index() : DeviceIndex(0));
  }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_device(Device device) {
    c10::cuda::set_device(device.has_index() ? device.index() : DeviceIndex(0));
  }
  void set_index(DeviceIndex device) {
    c10::cuda::set_device(device);
  }
  Device original_device() const {
    return Device(DeviceType::CUDA, 0);
  }
  Device current_device() const {
    return Device(DeviceType::CUDA, 0);
  }

 private:
  void set_device(DeviceIndex device) {
    c10::cuda::set_device(device);
  }
};

struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device)
      set_device(*device);
  }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> device) {
    if (device)
      set_index(*device);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  void set_device(Device device) {
    guard_.emplace(device);
  }
  void set_index(DeviceIndex device) {
    guard_.emplace(device);
  }

 private:
  std::optional<CUDAGuard> guard_;
};

struct CUDAStreamGuard {
  explicit CUDAStreamGuard(Stream stream) : original_(getCurrentCUDAStream()) {
    setCurrentCUDAStream(CUDAStream(stream));
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() {
    setCurrentCUDAStream(original_);
  }
  void reset_stream(Stream stream) {
    setCurrentCUDAStream(CUDAStream(stream));
  }
  CUDAStream original_stream() const {
    return original_;
  }
  CUDAStream current_stream() const {
    return getCurrentCUDAStream();
  }

 private:
  CUDAStream original_;
};

} // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
} // namespace at::cuda
