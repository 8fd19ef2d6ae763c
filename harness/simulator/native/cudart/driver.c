/* The functions of the CUDA driver that a submission's host code may call: tensor maps, and queries
 * of the device. */
#include <cuda.h>

#include "../tensor_map.h"
#include "internal.h"

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  int failed = sim_encode_tiled((sim_tensor_map *)map, (uint32_t)type, rank,
                                (uint64_t)(uintptr_t)address, (const uint64_t *)dims,
                                (const uint64_t *)strides, box, element_strides,
                                (uint32_t)interleave, (uint32_t)swizzle, (uint32_t)promotion,
                                (uint32_t)fill);
  return failed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Errors of the driver and the runtime have the same numbers and texts. */
CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = cudaGetErrorString((cudaError_t)error);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  switch (error) {
    case CUDA_SUCCESS: *name = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    default: *name = cudaGetErrorName((cudaError_t)error);
  }
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int *version) { return (CUresult)cudaDriverGetVersion(version); }

CUresult cuDeviceGetCount(int *count) { return (CUresult)cudaGetDeviceCount(count); }

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetDevice(CUdevice *device) { return cuDeviceGet(device, 0); }

CUresult cuCtxSynchronize(void) { return (CUresult)cudaDeviceSynchronize(); }

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return (CUresult)cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device);
}
