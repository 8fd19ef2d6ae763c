/* The part of the CUDA driver that a submission's host code calls: tensor maps, and the runtime's
 * ways to the driver's functions. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "tensor_map.h"

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    (void)promotion;
    int failed = sim_encode_tiled((sim_tensor_map *)map, (uint32_t)type, rank,
                                  (uint64_t)(uintptr_t)address, (const uint64_t *)dims,
                                  (const uint64_t *)strides, box, element_strides,
                                  (uint32_t)interleave, (uint32_t)swizzle, (uint32_t)fill);
    return failed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_SUCCESS                ? "no error"
            : error == CUDA_ERROR_INVALID_VALUE ? "invalid argument"
                                                : "unrecognized error code";
    return CUDA_SUCCESS;
}

static void *entry_point(const char *symbol) {
    if (!strcmp(symbol, "cuTensorMapEncodeTiled")) return (void *)cuTensorMapEncodeTiled;
    if (!strcmp(symbol, "cuGetErrorString")) return (void *)cuGetErrorString;
    return NULL;
}

static cudaError_t find(const char *symbol, void **function,
                        enum cudaDriverEntryPointQueryResult *status) {
    if (!symbol || !function) return cudaErrorInvalidValue;
    *function = entry_point(symbol);
    if (status)
        *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function || status ? cudaSuccess : cudaErrorSymbolNotFound;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
    (void)flags;
    return find(symbol, function, status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    (void)version, (void)flags;
    return find(symbol, function, status);
}
