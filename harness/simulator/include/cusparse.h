// The cuSPARSE interface for the simulator, which has no such library: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/cuda/cusparse/.
#pragma once

#include <harness_library.h>
#include <library_types.h>

typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusparseMatDescr* cusparseMatDescr_t;
typedef struct cusparseSpMatDescr* cusparseSpMatDescr_t;
typedef struct cusparseDnMatDescr* cusparseDnMatDescr_t;
typedef struct cusparseDnVecDescr* cusparseDnVecDescr_t;
typedef struct cusparseSpVecDescr* cusparseSpVecDescr_t;

typedef enum {
  CUSPARSE_STATUS_SUCCESS = 0,
  CUSPARSE_STATUS_NOT_INITIALIZED = 1,
  CUSPARSE_STATUS_ALLOC_FAILED = 2,
  CUSPARSE_STATUS_INVALID_VALUE = 3,
  CUSPARSE_STATUS_EXECUTION_FAILED = 6,
  CUSPARSE_STATUS_INTERNAL_ERROR = 7,
  CUSPARSE_STATUS_NOT_SUPPORTED = 10
} cusparseStatus_t;

typedef enum {
  CUSPARSE_OPERATION_NON_TRANSPOSE = 0,
  CUSPARSE_OPERATION_TRANSPOSE = 1,
  CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE = 2
} cusparseOperation_t;

typedef enum { CUSPARSE_INDEX_BASE_ZERO = 0, CUSPARSE_INDEX_BASE_ONE = 1 } cusparseIndexBase_t;
typedef enum { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 } cusparseIndexType_t;
typedef enum { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE } cusparsePointerMode_t;
typedef enum { CUSPARSE_SPMV_ALG_DEFAULT = 0, CUSPARSE_SPMV_CSR_ALG1 = 2, CUSPARSE_SPMV_CSR_ALG2 = 3 } cusparseSpMVAlg_t;
typedef enum { CUSPARSE_SPMM_ALG_DEFAULT = 0, CUSPARSE_SPMM_CSR_ALG1 = 4, CUSPARSE_SPMM_CSR_ALG2 = 6 } cusparseSpMMAlg_t;

#define HARNESS_CUSPARSE(name) \
  HARNESS_LIBRARY_FUNCTION(cusparseStatus_t, CUSPARSE_STATUS_NOT_SUPPORTED, name)
#define HARNESS_CUSPARSE_SET(name) \
  HARNESS_LIBRARY_PREPARATION(cusparseStatus_t, CUSPARSE_STATUS_SUCCESS, name)
#define HARNESS_CUSPARSE_CREATE(name) \
  HARNESS_LIBRARY_CREATION(cusparseStatus_t, CUSPARSE_STATUS_SUCCESS, name)

HARNESS_CUSPARSE_CREATE(cusparseCreate)
HARNESS_CUSPARSE_CREATE(cusparseCreateMatDescr)
HARNESS_CUSPARSE_CREATE(cusparseCreateCsr)
HARNESS_CUSPARSE_CREATE(cusparseCreateCsc)
HARNESS_CUSPARSE_CREATE(cusparseCreateCoo)
HARNESS_CUSPARSE_CREATE(cusparseCreateDnMat)
HARNESS_CUSPARSE_CREATE(cusparseCreateDnVec)
HARNESS_CUSPARSE_CREATE(cusparseCreateSpVec)
HARNESS_CUSPARSE_SET(cusparseDestroy)
HARNESS_CUSPARSE_SET(cusparseDestroyMatDescr)
HARNESS_CUSPARSE_SET(cusparseDestroySpMat)
HARNESS_CUSPARSE_SET(cusparseDestroyDnMat)
HARNESS_CUSPARSE_SET(cusparseDestroyDnVec)
HARNESS_CUSPARSE_SET(cusparseDestroySpVec)
HARNESS_CUSPARSE_SET(cusparseSetStream)
HARNESS_CUSPARSE_SET(cusparseSetPointerMode)

HARNESS_CUSPARSE(cusparseSpMV_bufferSize)
HARNESS_CUSPARSE(cusparseSpMV)
HARNESS_CUSPARSE(cusparseSpMM_bufferSize)
HARNESS_CUSPARSE(cusparseSpMM)
HARNESS_CUSPARSE(cusparseSDDMM_bufferSize)
HARNESS_CUSPARSE(cusparseSDDMM)
HARNESS_CUSPARSE(cusparseSpGEMM_compute)
HARNESS_CUSPARSE(cusparseSpSV_solve)
HARNESS_CUSPARSE(cusparseSpSM_solve)
HARNESS_CUSPARSE(cusparseDenseToSparse_convert)
HARNESS_CUSPARSE(cusparseSparseToDense)

inline const char* cusparseGetErrorString(cusparseStatus_t status) {
  return status ? "CUSPARSE_STATUS_NOT_SUPPORTED" : "CUSPARSE_STATUS_SUCCESS";
}
