// The cuFFT interface for the simulator, which has no such library: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/cuda/cufft/.
#pragma once

#include <cuComplex.h>
#include <harness_library.h>
#include <library_types.h>

typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
typedef int cufftHandle;

typedef enum {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_ALLOC_FAILED = 2,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_INTERNAL_ERROR = 5,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_INVALID_SIZE = 8,
  CUFFT_NOT_SUPPORTED = 16
} cufftResult_t;
typedef cufftResult_t cufftResult;

typedef enum {
  CUFFT_R2C = 0x2a,
  CUFFT_C2R = 0x2c,
  CUFFT_C2C = 0x29,
  CUFFT_D2Z = 0x6a,
  CUFFT_Z2D = 0x6c,
  CUFFT_Z2Z = 0x69
} cufftType_t;
typedef cufftType_t cufftType;

#define CUFFT_FORWARD (-1)
#define CUFFT_INVERSE 1

#define HARNESS_CUFFT(name) HARNESS_LIBRARY_FUNCTION(cufftResult, CUFFT_NOT_SUPPORTED, name)
#define HARNESS_CUFFT_PLAN(name)                    \
  template <class... Arguments>                     \
  inline cufftResult name(cufftHandle* plan, Arguments&&...) { \
    *plan = 1;                                      \
    return CUFFT_SUCCESS;                           \
  }

HARNESS_CUFFT_PLAN(cufftCreate)
HARNESS_CUFFT_PLAN(cufftPlan1d)
HARNESS_CUFFT_PLAN(cufftPlan2d)
HARNESS_CUFFT_PLAN(cufftPlan3d)
HARNESS_CUFFT_PLAN(cufftPlanMany)
HARNESS_LIBRARY_PREPARATION(cufftResult, CUFFT_SUCCESS, cufftDestroy)
HARNESS_LIBRARY_PREPARATION(cufftResult, CUFFT_SUCCESS, cufftSetStream)
HARNESS_CUFFT(cufftMakePlan1d)
HARNESS_CUFFT(cufftMakePlan2d)
HARNESS_CUFFT(cufftMakePlanMany)
HARNESS_CUFFT(cufftExecC2C)
HARNESS_CUFFT(cufftExecR2C)
HARNESS_CUFFT(cufftExecC2R)
HARNESS_CUFFT(cufftExecZ2Z)
HARNESS_CUFFT(cufftExecD2Z)
HARNESS_CUFFT(cufftExecZ2D)
