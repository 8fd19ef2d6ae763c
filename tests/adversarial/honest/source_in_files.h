#pragma once

#include <torch/extension.h>

torch::Tensor conv_transpose1d(torch::Tensor x, torch::Tensor weight, int64_t stride);
