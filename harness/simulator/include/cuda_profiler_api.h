// Start and stop of a profiler; they have no effect on the simulated device. PyPI's packages of
// CUDA lack this header.
#pragma once

#include <cuda_runtime_api.h>

extern "C" {
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
}
