// Checks of CUDA calls, under ATen's names.
#pragma once

#include <c10/cuda/CUDAException.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

#define AT_CUDA_DRIVER_CHECK(EXPR)                                                    \
  do {                                                                                \
    const CUresult at_cuda_result_ = (EXPR);                                          \
    TORCH_CHECK(                                                                      \
        at_cuda_result_ == CUDA_SUCCESS,                                              \
        "CUDA driver error: ",                                                        \
        cudaGetErrorString(static_cast<cudaError_t>(at_cuda_result_)));               \
  } while (0)
