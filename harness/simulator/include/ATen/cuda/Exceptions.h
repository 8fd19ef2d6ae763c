// Checks of CUDA calls, under ATen's names.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <cusparse.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

#define AT_CUDA_DRIVER_CHECK(EXPR)                                                    \
  do {                                                                                \
    const CUresult at_cuda_result_ = (EXPR);                                          \
    TORCH_CHECK(                                                                      \
        at_cuda_result_ == CUDA_SUCCESS,                                              \
        "CUDA driver error: ",                                                        \
        cudaGetErrorString(static_cast<cudaError_t>(at_cuda_result_)));               \
  } while (0)

#define HARNESS_LIBRARY_CHECK(name, EXPR) \
  TORCH_CHECK((EXPR) == 0, "CUDA error: " name " failed when calling `" #EXPR "`")

#define TORCH_CUDABLAS_CHECK(EXPR) HARNESS_LIBRARY_CHECK("cuBLAS", EXPR)
#define TORCH_CUDASPARSE_CHECK(EXPR) HARNESS_LIBRARY_CHECK("cuSPARSE", EXPR)
#define TORCH_CUSOLVER_CHECK(EXPR) HARNESS_LIBRARY_CHECK("cuSOLVER", EXPR)
