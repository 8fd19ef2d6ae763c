// Names of cuBLAS, without the library: see harness_library.h.
#pragma once

#include <cublas_api.h>
