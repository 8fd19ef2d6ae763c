// Guards for any kind of device; they only check that the device exists.
#pragma once

#include <harness/check.h>

namespace harness_slim {

class DeviceGuard {
 public:
  explicit DeviceGuard(c10::Device device) {
    guard(device.place());
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
};

class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(c10::Device device) {
    guard(device.place());
  }
  explicit OptionalDeviceGuard(std::optional<c10::Device> device) {
    if (device)
      guard(device->place());
  }
  OptionalDeviceGuard(const OptionalDeviceGuard&) = delete;
  OptionalDeviceGuard& operator=(const OptionalDeviceGuard&) = delete;
};

} // namespace harness_slim

namespace c10 {
using harness_slim::DeviceGuard;
using harness_slim::OptionalDeviceGuard;
} // namespace c10
