// Names of cuFFT's second interface, without the library: see harness_library.h.
#pragma once

#include <cufft.h>

HARNESS_CUFFT(cufftXtMakePlanMany)
HARNESS_CUFFT(cufftXtExec)
