/* The error state: each thread's last error, and the error that has broken the context. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static __thread cudaError_t last_error = cudaSuccess;
static atomic_int broken_by = cudaSuccess;

static __thread struct {
  int error;
  char text[512];
} explanation;

void sim_explain(int error, const char *why) {
  explanation.error = error;
  snprintf(explanation.text, sizeof explanation.text, "%s", why);
}

const char *sim_explanation(int error) {
  return explanation.error == error ? explanation.text : "";
}

/* Return whether an error is a kernel's, after which CUDA requires a new process. */
static int ends_context(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return 1;
    default: return 0;
  }
}

cudaError_t sim_report(cudaError_t error) {
  if (error == cudaSuccess) return error;
  int whole = cudaSuccess; /* only the first error breaks the context */
  if (ends_context(error)) atomic_compare_exchange_strong(&broken_by, &whole, error);
  last_error = error;
  return error;
}

cudaError_t sim_broken(void) {
  cudaError_t error = (cudaError_t)atomic_load(&broken_by);
  if (error) last_error = error;
  return error;
}

void sim_recover(void) {
  atomic_store(&broken_by, cudaSuccess);
  last_error = cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

struct error_text {
  cudaError_t error;
  const char *name, *text;
};

#define ERROR(name, text) {name, #name, text}

static const struct error_text error_texts[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ERROR(cudaErrorUnsupportedLimit, "limit is not supported on this architecture"),
    ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ERROR(cudaErrorAssert, "device-side assert triggered"),
    ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorInvalidClusterSize, "The requested cluster size is invalid"),
    ERROR(cudaErrorUnknown, "unknown error"),
};

static const struct error_text *find_text(cudaError_t error) {
  for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; ++i)
    if (error_texts[i].error == error) return &error_texts[i];
  return NULL;
}

const char *cudaGetErrorString(cudaError_t error) {
  const struct error_text *found = find_text(error);
  return found ? found->text : "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
  const struct error_text *found = find_text(error);
  return found ? found->name : "unrecognized error code";
}
