// The cuBLAS interface for the simulator, which has no such library: see harness_library.h.
#pragma once

#include <cublas_api.h>
