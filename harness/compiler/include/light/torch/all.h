// The part of <torch/all.h> that the host code of kernels uses, which is <torch/types.h>. A source
// that does not compile with this header is compiled again with torch's own.
#pragma once

#include <torch/types.h>
