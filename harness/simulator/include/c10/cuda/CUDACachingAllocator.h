// The allocator of the simulated device, under the names of torch's caching one.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::CUDACachingAllocator {

struct CUDAAllocator {
  DataPtr allocate(size_t bytes) {
    return GetAllocator(DeviceType::CUDA)->allocate(bytes);
  }
  void* raw_alloc(size_t bytes) {
    return bytes ? GetAllocator(DeviceType::CUDA)->raw_allocate(bytes) : nullptr;
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t) {
    return raw_alloc(bytes);
  }
  void raw_delete(void* pointer) {
    GetAllocator(DeviceType::CUDA)->raw_deallocate(pointer);
  }
  void recordStream(const DataPtr&, CUDAStream) {}
  void emptyCache() {}
};

inline CUDAAllocator* get() {
  static CUDAAllocator allocator;
  return &allocator;
}
inline void* raw_alloc(size_t bytes) {
  return get()->raw_alloc(bytes);
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  return get()->raw_alloc_with_stream(bytes, stream);
}
inline void raw_delete(void* pointer) {
  get()->raw_delete(pointer);
}
inline void recordStream(const DataPtr&, CUDAStream) {}
inline void emptyCache() {}

} // namespace c10::cuda::CUDACachingAllocator
