// The cuBLASLt interface for the simulator, which has no such library: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/cuda/cublas/, "Using the cuBLASLt API".
#pragma once

#include <cublas_api.h>

typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque* cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque* cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque* cublasLtMatmulPreference_t;
typedef struct cublasLtMatrixTransformDescOpaque* cublasLtMatrixTransformDesc_t;

typedef struct {
  unsigned long long data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

typedef enum {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
  CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_TRANSC = 5,
  CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
} cublasLtMatmulDescAttributes_t;

typedef enum {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36
} cublasLtEpilogue_t;

typedef enum {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,
  CUBLASLT_MATRIX_LAYOUT_LD = 4,
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;

typedef enum { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 } cublasLtOrder_t;

typedef enum {
  CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1
} cublasLtMatmulPreferenceAttributes_t;

HARNESS_LIBRARY_CREATION(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasLtCreate)
HARNESS_LIBRARY_CREATION(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasLtMatmulDescCreate)
HARNESS_LIBRARY_CREATION(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasLtMatrixLayoutCreate)
HARNESS_LIBRARY_CREATION(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasLtMatmulPreferenceCreate)
HARNESS_CUBLAS_SET(cublasLtDestroy)
HARNESS_CUBLAS_SET(cublasLtMatmulDescDestroy)
HARNESS_CUBLAS_SET(cublasLtMatmulDescSetAttribute)
HARNESS_CUBLAS_SET(cublasLtMatrixLayoutDestroy)
HARNESS_CUBLAS_SET(cublasLtMatrixLayoutSetAttribute)
HARNESS_CUBLAS_SET(cublasLtMatmulPreferenceDestroy)
HARNESS_CUBLAS_SET(cublasLtMatmulPreferenceSetAttribute)
HARNESS_CUBLAS(cublasLtMatmulAlgoGetHeuristic)
HARNESS_CUBLAS(cublasLtMatmul)
HARNESS_CUBLAS(cublasLtMatrixTransform)
