// The part of <ATen/DeviceGuard.h> that guards need. Lists of tensors have no device here: their
// header brings the interpreter's value types, a fifth of all that is parsed.
// What does not compile with this is compiled again with torch's own header.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

namespace at {

inline std::optional<Device> device_of(const Tensor& tensor) {
  std::optional<Device> device;
  if (tensor.defined()) {
    device = tensor.device();
  }
  return device;
}

inline std::optional<Device> device_of(const std::optional<Tensor>& tensor) {
  return tensor ? device_of(*tensor) : std::nullopt;
}

} // namespace at
