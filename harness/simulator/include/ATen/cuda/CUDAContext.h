// The simulated device's context: see CUDAContextLight.h.
#pragma once

#include <ATen/cuda/CUDAContextLight.h>
