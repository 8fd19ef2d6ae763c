// The implementation of torch's own guards (c10/cuda/CUDAGuard.h), for the one simulated device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::impl {

struct CUDAGuardImpl {
  static constexpr DeviceType static_type = DeviceType::CUDA;

  CUDAGuardImpl() = default;
  explicit CUDAGuardImpl(DeviceType type) {
    TORCH_CHECK(type == static_type, "Expected a CUDA device, but got ", type);
  }
  DeviceType type() const {
    return static_type;
  }
  Device exchangeDevice(Device device) const {
    setDevice(device);
    return Device(static_type, 0);
  }
  Device getDevice() const {
    return Device(static_type, 0);
  }
  void setDevice(Device device) const {
    TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
    c10::cuda::set_device(device.has_index() ? device.index() : DeviceIndex(0));
  }
  void uncheckedSetDevice(Device) const noexcept {}
  Stream getStream(Device) const {
    return getCurrentCUDAStream();
  }
  Stream getDefaultStream(Device) const {
    return getDefaultCUDAStream();
  }
  Stream exchangeStream(Stream stream) const {
    Stream previous = getCurrentCUDAStream();
    setCurrentCUDAStream(CUDAStream(stream));
    return previous;
  }
  DeviceIndex deviceCount() const noexcept {
    return 1;
  }
};

} // namespace c10::cuda::impl
