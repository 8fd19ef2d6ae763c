// The cuSOLVER interface for the simulator, which has no such library: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/cuda/cusolver/.
#pragma once

#include <cublas_api.h>
#include <cusolver_common.h>

typedef struct cusolverDnContext* cusolverDnHandle_t;

#define HARNESS_CUSOLVER(name) \
  HARNESS_LIBRARY_FUNCTION(cusolverStatus_t, CUSOLVER_STATUS_NOT_SUPPORTED, name)
#define HARNESS_CUSOLVER_REAL(name) HARNESS_CUSOLVER(cusolverDnS##name) HARNESS_CUSOLVER(cusolverDnD##name)

HARNESS_LIBRARY_CREATION(cusolverStatus_t, CUSOLVER_STATUS_SUCCESS, cusolverDnCreate)
HARNESS_LIBRARY_PREPARATION(cusolverStatus_t, CUSOLVER_STATUS_SUCCESS, cusolverDnDestroy)
HARNESS_LIBRARY_PREPARATION(cusolverStatus_t, CUSOLVER_STATUS_SUCCESS, cusolverDnSetStream)

HARNESS_CUSOLVER_REAL(potrf_bufferSize) HARNESS_CUSOLVER_REAL(potrf) HARNESS_CUSOLVER_REAL(potrs)
HARNESS_CUSOLVER_REAL(getrf_bufferSize) HARNESS_CUSOLVER_REAL(getrf) HARNESS_CUSOLVER_REAL(getrs)
HARNESS_CUSOLVER_REAL(geqrf_bufferSize) HARNESS_CUSOLVER_REAL(geqrf) HARNESS_CUSOLVER_REAL(ormqr)
HARNESS_CUSOLVER_REAL(gesvd_bufferSize) HARNESS_CUSOLVER_REAL(gesvd)
HARNESS_CUSOLVER_REAL(syevd_bufferSize) HARNESS_CUSOLVER_REAL(syevd)
