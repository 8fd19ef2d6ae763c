// Checks of CUDA calls, with the names, exception class and wording of torch's own. If the
// simulator knows why a launch was refused, the message contains the reason.
#pragma once

#include <c10/util/Exception.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

extern "C" const char* sim_explanation(int error);

namespace c10::cuda::detail {

inline void check(cudaError_t error, const char* function, const char* file, unsigned line) {
  if (error == cudaSuccess)
    return;
  (void)cudaGetLastError();
  std::string message = std::string("CUDA error: ") + cudaGetErrorString(error);
  if (const std::string why = sim_explanation(error); !why.empty())
    message += " (" + why + ")";
  throw c10::AcceleratorError({function, file, line}, static_cast<int32_t>(error), message);
}

} // namespace c10::cuda::detail

#define C10_CUDA_CHECK(EXPR) ::c10::cuda::detail::check((EXPR), __func__, __FILE__, __LINE__)

#define C10_CUDA_CHECK_WARN(EXPR)                                               \
  do {                                                                          \
    const cudaError_t c10_cuda_error_ = (EXPR);                                 \
    if (c10_cuda_error_ != cudaSuccess) {                                       \
      (void)cudaGetLastError();                                                 \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(c10_cuda_error_));        \
    }                                                                           \
  } while (0)

#define C10_CUDA_ERROR_HANDLED(EXPR) (EXPR)
#define C10_CUDA_IGNORE_ERROR(EXPR) ((void)(EXPR), (void)cudaGetLastError())
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
