// What is known of each byte of a tensor's memory on the simulated device.
#pragma once

#include <ATen/ATen.h>

#include "arena.h"

inline at::Tensor on_cpu(
    void* data,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    at::ScalarType type) {
  return at::from_blob(data, sizes, strides, at::TensorOptions().dtype(type).device(at::kCPU));
}

// The shadow of the tensor's memory, one byte for each byte: shape is the tensor's and a last
// dimension that runs over the bytes of an element.
inline at::Tensor shadow_of(const at::Tensor& tensor) {
  const int64_t width = tensor.element_size();
  auto sizes = tensor.sizes().vec();
  auto strides = tensor.strides().vec();
  for (auto& stride : strides)
    stride *= width;
  sizes.push_back(width);
  strides.push_back(1);
  const auto offset = reinterpret_cast<uint64_t>(tensor.data_ptr()) - sim_arena_base();
  auto* shadow = reinterpret_cast<void*>(sim_arena_shadow() + offset);
  return on_cpu(shadow, sizes, strides, at::kByte);
}
