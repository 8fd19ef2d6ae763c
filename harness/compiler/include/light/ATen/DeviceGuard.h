// The part of <ATen/DeviceGuard.h> that guards need, without `device_of` for lists of tensors. The
// header of those lists includes the interpreter's value types, a fifth of the text that is parsed.
// A source that does not compile with this header is compiled again with torch's own.
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
