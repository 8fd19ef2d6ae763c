// The extended cuFFT interface for the simulator, which has no such library: see harness_library.h.
#pragma once

#include <cufft.h>

HARNESS_CUFFT(cufftXtMakePlanMany)
HARNESS_CUFFT(cufftXtExec)
