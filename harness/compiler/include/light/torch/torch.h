// <torch/torch.h> has all of torch's C++ interface; kernels' host code uses what <torch/types.h> has.
// What does not compile with this is compiled again with torch's own header.
#pragma once

#include <torch/types.h>
