// The parts of PyTorch's CUDA headers that submissions use, one function each.
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <sstream>
#include <unordered_set>

template <typename T>
__global__ void sum(T* total, int n) {
  if (threadIdx.x < n) gpuAtomicAdd(total, static_cast<T>(threadIdx.x));
}

__global__ void reads(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

std::vector<int64_t> facts() {
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  return {properties->multiProcessorCount, at::cuda::getDeviceProperties(0)->major,
          at::cuda::warp_size(), c10::cuda::device_count(), at::cuda::current_device(),
          at::cuda::is_available()};
}

int64_t current_stream() {
  return reinterpret_cast<int64_t>(at::cuda::getCurrentCUDAStream().stream());
}

// Returns whether each guard takes effect and restores the previous state.
std::vector<bool> guards(torch::Tensor x) {
  const at::cuda::OptionalCUDAGuard optional(at::device_of(x));
  const c10::cuda::CUDAGuard guard(x.device());
  const c10::DeviceGuard general(x.device());
  const auto outer = c10::cuda::getCurrentCUDAStream();
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
  std::vector<bool> seen{optional.current_device()->index() == 0, guard.original_device() == x.device()};
  {
    c10::cuda::CUDAStreamGuard inner(stream);
    seen.push_back(c10::cuda::getCurrentCUDAStream() == stream);
    c10::cuda::OptionalCUDAStreamGuard another;
    another.reset_stream(outer);
    seen.push_back(c10::cuda::getCurrentCUDAStream() == outer);
  }
  seen.push_back(c10::cuda::getCurrentCUDAStream() == outer);
  c10::cuda::setCurrentCUDAStream(stream);
  seen.push_back(c10::cuda::getCurrentCUDAStream() == stream);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
  seen.push_back(stream.priority() < outer.priority());
  std::unordered_set<c10::cuda::CUDAStream> all;
  for (int i = 0; i < 40; ++i) all.insert(c10::cuda::getStreamFromPool());
  seen.push_back(all.size() == 32 && !all.count(stream));
  std::ostringstream text;
  text << stream;
  seen.push_back(text.str().find("cuda") != std::string::npos);
  return seen;
}

bool events() {
  const auto stream = at::cuda::getStreamFromPool();
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  start.record(stream);
  end.record(stream);
  start.block(at::cuda::getCurrentCUDAStream());
  end.synchronize();
  return start.query() && start.elapsed_time(end) >= 0;
}

torch::Tensor workspace() {
  auto y = torch::empty({8}, torch::dtype(torch::kFloat).device(torch::kCUDA));
  auto* raw = static_cast<float*>(c10::cuda::CUDACachingAllocator::raw_alloc(32));
  auto held = c10::cuda::CUDACachingAllocator::get()->allocate(32);
  auto* other = static_cast<float*>(held.get());
  const auto stream = at::cuda::getCurrentCUDAStream();
  AT_CUDA_CHECK(cudaMemsetAsync(raw, 0, 32, stream));
  reads<<<1, 8, 0, stream>>>(raw, other);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  reads<<<1, 8, 0, stream>>>(other, y.data_ptr<float>());
  c10::cuda::CUDACachingAllocator::raw_delete(raw);
  return y;
}

torch::Tensor sums(torch::Tensor like) {
  auto total = torch::zeros({1}, like.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, like.scalar_type(), "sums", [&] {
    sum<scalar_t><<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(total.data_ptr<scalar_t>(), 10);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return total;
}

void refused(int64_t threads, bool check) {
  auto y = torch::zeros({2048}, torch::dtype(torch::kFloat).device(torch::kCUDA));
  reads<<<1, threads>>>(y.data_ptr<float>(), y.data_ptr<float>());
  if (check) C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void failing_call() { C10_CUDA_CHECK(cudaMemset(nullptr, 0, 4)); }

void null_pointer(torch::Tensor y) { reads<<<1, 1>>>(nullptr, y.data_ptr<float>()); }
