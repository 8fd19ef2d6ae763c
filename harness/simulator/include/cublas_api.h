// The cuBLAS interface for the simulator, which has no such library. torch computes products of
// float matrices. All other functions only report their name: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/cuda/cublas/.
#pragma once

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <harness_library.h>
#include <library_types.h>

typedef struct cublasContext* cublasHandle_t;

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;

typedef enum {
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUBLAS_OP_C = 2,
  CUBLAS_OP_HERMITAN = 2,
  CUBLAS_OP_CONJG = 3
} cublasOperation_t;

typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED } cublasAtomicsMode_t;

typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;

typedef enum {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0, CUBLAS_GEMM_ALGO1, CUBLAS_GEMM_ALGO2, CUBLAS_GEMM_ALGO3,
  CUBLAS_GEMM_ALGO4, CUBLAS_GEMM_ALGO5, CUBLAS_GEMM_ALGO6, CUBLAS_GEMM_ALGO7,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99
} cublasGemmAlgo_t;

typedef enum {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;

typedef cudaDataType cublasDataType_t;

#define HARNESS_CUBLAS(name) \
  HARNESS_LIBRARY_FUNCTION(cublasStatus_t, CUBLAS_STATUS_NOT_SUPPORTED, name)
#define HARNESS_CUBLAS_SET(name) \
  HARNESS_LIBRARY_PREPARATION(cublasStatus_t, CUBLAS_STATUS_SUCCESS, name)

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
  cublasPointerMode_t pointers;
};

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

// Setters and getters of a handle's fields.
#define HARNESS_CUBLAS_KEPT(name, Type, kept)                                     \
  inline cublasStatus_t cublasSet##name(cublasHandle_t handle, Type value) {      \
    handle->kept = value;                                                         \
    return CUBLAS_STATUS_SUCCESS;                                                 \
  }                                                                               \
  inline cublasStatus_t cublasGet##name(cublasHandle_t handle, Type* value) {     \
    *value = handle->kept;                                                        \
    return CUBLAS_STATUS_SUCCESS;                                                 \
  }

HARNESS_CUBLAS_KEPT(Stream, cudaStream_t, stream)
HARNESS_CUBLAS_KEPT(MathMode, cublasMath_t, math)
HARNESS_CUBLAS_KEPT(PointerMode, cublasPointerMode_t, pointers)

HARNESS_CUBLAS_SET(cublasSetWorkspace)
HARNESS_CUBLAS_SET(cublasSetAtomicsMode)
HARNESS_CUBLAS_SET(cublasSetSmCountTarget)

inline const char* cublasGetStatusString(cublasStatus_t status) {
  return status ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS";
}
inline const char* cublasGetStatusName(cublasStatus_t status) {
  return cublasGetStatusString(status);
}

HARNESS_CUBLAS(cublasGetVersion)
HARNESS_CUBLAS(cublasSetVector)
HARNESS_CUBLAS(cublasGetVector)
HARNESS_CUBLAS(cublasSetMatrix)
HARNESS_CUBLAS(cublasGetMatrix)
HARNESS_CUBLAS(cublasSetVectorAsync)
HARNESS_CUBLAS(cublasGetVectorAsync)
HARNESS_CUBLAS(cublasSetMatrixAsync)
HARNESS_CUBLAS(cublasGetMatrixAsync)

// A routine for each element type, also under its name in the second interface (_v2).
#define HARNESS_CUBLAS_BOTH(name) HARNESS_CUBLAS(name) HARNESS_CUBLAS(name##_v2)
#define HARNESS_CUBLAS_REAL(name) HARNESS_CUBLAS_BOTH(cublasS##name) HARNESS_CUBLAS_BOTH(cublasD##name)
#define HARNESS_CUBLAS_COMPLEX(name) HARNESS_CUBLAS_BOTH(cublasC##name) HARNESS_CUBLAS_BOTH(cublasZ##name)
#define HARNESS_CUBLAS_ALL(name) HARNESS_CUBLAS_REAL(name) HARNESS_CUBLAS_COMPLEX(name)

// Level 1.
HARNESS_CUBLAS_BOTH(cublasIsamax) HARNESS_CUBLAS_BOTH(cublasIdamax)
HARNESS_CUBLAS_BOTH(cublasIcamax) HARNESS_CUBLAS_BOTH(cublasIzamax)
HARNESS_CUBLAS_BOTH(cublasIsamin) HARNESS_CUBLAS_BOTH(cublasIdamin)
HARNESS_CUBLAS_BOTH(cublasIcamin) HARNESS_CUBLAS_BOTH(cublasIzamin)
HARNESS_CUBLAS_REAL(asum) HARNESS_CUBLAS_BOTH(cublasScasum) HARNESS_CUBLAS_BOTH(cublasDzasum)
HARNESS_CUBLAS_ALL(axpy) HARNESS_CUBLAS_ALL(copy) HARNESS_CUBLAS_REAL(dot)
HARNESS_CUBLAS_COMPLEX(dotu) HARNESS_CUBLAS_COMPLEX(dotc)
HARNESS_CUBLAS_REAL(nrm2) HARNESS_CUBLAS_BOTH(cublasScnrm2) HARNESS_CUBLAS_BOTH(cublasDznrm2)
HARNESS_CUBLAS_ALL(rot) HARNESS_CUBLAS_ALL(rotg) HARNESS_CUBLAS_REAL(rotm) HARNESS_CUBLAS_REAL(rotmg)
HARNESS_CUBLAS_ALL(scal) HARNESS_CUBLAS_ALL(swap)
HARNESS_CUBLAS(cublasAxpyEx) HARNESS_CUBLAS(cublasDotEx) HARNESS_CUBLAS(cublasDotcEx)
HARNESS_CUBLAS(cublasNrm2Ex) HARNESS_CUBLAS(cublasScalEx) HARNESS_CUBLAS(cublasRotEx)
HARNESS_CUBLAS(cublasAsumEx) HARNESS_CUBLAS(cublasCopyEx)

// Level 2.
HARNESS_CUBLAS_ALL(gbmv) HARNESS_CUBLAS_REAL(ger)
HARNESS_CUBLAS_BOTH(cublasDgemv) HARNESS_CUBLAS_COMPLEX(gemv)
HARNESS_CUBLAS_COMPLEX(geru) HARNESS_CUBLAS_COMPLEX(gerc)
HARNESS_CUBLAS_REAL(sbmv) HARNESS_CUBLAS_REAL(spmv) HARNESS_CUBLAS_REAL(spr) HARNESS_CUBLAS_REAL(spr2)
HARNESS_CUBLAS_ALL(symv) HARNESS_CUBLAS_ALL(syr) HARNESS_CUBLAS_ALL(syr2)
HARNESS_CUBLAS_ALL(tbmv) HARNESS_CUBLAS_ALL(tbsv) HARNESS_CUBLAS_ALL(tpmv) HARNESS_CUBLAS_ALL(tpsv)
HARNESS_CUBLAS_ALL(trmv) HARNESS_CUBLAS_ALL(trsv)
HARNESS_CUBLAS_COMPLEX(hemv) HARNESS_CUBLAS_COMPLEX(hbmv) HARNESS_CUBLAS_COMPLEX(hpmv)
HARNESS_CUBLAS_COMPLEX(her) HARNESS_CUBLAS_COMPLEX(her2) HARNESS_CUBLAS_COMPLEX(hpr)
HARNESS_CUBLAS_COMPLEX(hpr2)
HARNESS_CUBLAS_ALL(gemvBatched) HARNESS_CUBLAS_ALL(gemvStridedBatched)

// Level 3 and extensions.
HARNESS_CUBLAS_BOTH(cublasDgemm) HARNESS_CUBLAS_COMPLEX(gemm) HARNESS_CUBLAS(cublasHgemm)
HARNESS_CUBLAS_COMPLEX(gemm3m)
HARNESS_CUBLAS_ALL(gemmBatched) HARNESS_CUBLAS(cublasHgemmBatched)
HARNESS_CUBLAS_BOTH(cublasDgemmStridedBatched) HARNESS_CUBLAS_COMPLEX(gemmStridedBatched)
HARNESS_CUBLAS(cublasHgemmStridedBatched)
HARNESS_CUBLAS(cublasSgemmEx) HARNESS_CUBLAS(cublasCgemmEx) HARNESS_CUBLAS(cublasGemmEx)
HARNESS_CUBLAS(cublasGemmBatchedEx) HARNESS_CUBLAS(cublasGemmStridedBatchedEx)
HARNESS_CUBLAS(cublasSgemmGroupedBatched) HARNESS_CUBLAS(cublasGemmGroupedBatchedEx)
HARNESS_CUBLAS_ALL(symm) HARNESS_CUBLAS_ALL(syrk) HARNESS_CUBLAS_ALL(syr2k) HARNESS_CUBLAS_ALL(syrkx)
HARNESS_CUBLAS_ALL(trmm) HARNESS_CUBLAS_ALL(trsm) HARNESS_CUBLAS_ALL(trsmBatched)
HARNESS_CUBLAS_COMPLEX(hemm) HARNESS_CUBLAS_COMPLEX(herk) HARNESS_CUBLAS_COMPLEX(her2k)
HARNESS_CUBLAS_COMPLEX(herkx)
HARNESS_CUBLAS_ALL(geam) HARNESS_CUBLAS_ALL(dgmm) HARNESS_CUBLAS_ALL(getrfBatched)
HARNESS_CUBLAS_ALL(getrsBatched) HARNESS_CUBLAS_ALL(getriBatched) HARNESS_CUBLAS_ALL(matinvBatched)
HARNESS_CUBLAS_ALL(geqrfBatched) HARNESS_CUBLAS_ALL(gelsBatched) HARNESS_CUBLAS_ALL(tpttr)
HARNESS_CUBLAS_ALL(trttp)

// Products of float matrices in column-major order.

// sim_multiply makes torch compute C = alpha A B + beta C for a batch of matrices on a stream.
// Strides are in elements: between matrices, between rows, between columns. It reports the call to
// the device and returns a cudaError_t. It is defined in simulator/cudart/library.c.
struct sim_matrix {
  const float* start;
  int64_t strides[3];
};
extern "C" void sim_note_unsupported(const char* what);
extern "C" int sim_multiply(cudaStream_t stream, const int64_t sizes[4], float alpha,
                            const struct sim_matrix* a, const struct sim_matrix* b, float beta,
                            const struct sim_matrix* c);

inline cublasStatus_t cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int rows, int columns,
    int inner, const float* alpha, const float* a, int a_column, long long a_matrix, const float* b,
    int b_column, long long b_matrix, const float* beta, float* c, int c_column, long long c_matrix,
    int count) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_a_turned = turn_a != CUBLAS_OP_N, is_b_turned = turn_b != CUBLAS_OP_N;
  const auto fits = [](int column, int height) { return column >= (height > 1 ? height : 1); };
  if (rows < 0 || columns < 0 || inner < 0 || count < 0 ||
      !fits(a_column, is_a_turned ? inner : rows) || !fits(b_column, is_b_turned ? columns : inner) ||
      !fits(c_column, rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  // torch computes in float32, and takes alpha and beta from the host only.
  if (handle->math == CUBLAS_TF32_TENSOR_OP_MATH || handle->pointers == CUBLAS_POINTER_MODE_DEVICE) {
    sim_note_unsupported("cublasSgemm with TF32, or with factors on the device");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const int64_t sizes[4] = {count, rows, columns, inner};
  const auto lying = [](const float* start, bool is_turned, int column, long long matrix) {
    return is_turned ? sim_matrix{start, {matrix, column, 1}} : sim_matrix{start, {matrix, 1, column}};
  };
  const sim_matrix left = lying(a, is_a_turned, a_column, a_matrix);
  const sim_matrix right = lying(b, is_b_turned, b_column, b_matrix);
  const sim_matrix result = lying(c, false, c_column, c_matrix);
  const int error = sim_multiply(handle->stream, sizes, *alpha, &left, &right, *beta, &result);
  return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSgemm(
    cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int rows, int columns,
    int inner, const float* alpha, const float* a, int a_column, const float* b, int b_column,
    const float* beta, float* c, int c_column) {
  return cublasSgemmStridedBatched(handle, turn_a, turn_b, rows, columns, inner, alpha, a, a_column, 0,
                                   b, b_column, 0, beta, c, c_column, 0, 1);
}

inline cublasStatus_t cublasSgemv(
    cublasHandle_t handle, cublasOperation_t turn, int rows, int columns, const float* alpha,
    const float* a, int a_column, const float* x, int x_step, const float* beta, float* y, int y_step) {
  // A negative step stores the vector from its end.
  if (x_step <= 0 || y_step <= 0) {
    sim_note_unsupported("cublasSgemv with a vector from its end on");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // A vector is a matrix of one row, whose columns are a step apart.
  const int height = turn == CUBLAS_OP_N ? rows : columns, width = turn == CUBLAS_OP_N ? columns : rows;
  return cublasSgemm(handle, CUBLAS_OP_N, turn == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, 1, height,
                     width, alpha, x, x_step, a, a_column, beta, y, y_step);
}

// A function with a _v2 name is the same under both names.
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSetStream_v2 cublasSetStream
#define cublasGetStream_v2 cublasGetStream
#define cublasSetPointerMode_v2 cublasSetPointerMode
#define cublasGetPointerMode_v2 cublasGetPointerMode
#define cublasSgemm_v2 cublasSgemm
#define cublasSgemv_v2 cublasSgemv
