// The part of <torch/extension.h> that inline extensions use: <torch/types.h> and, for the host
// compiler, the conversions between Python and C++. A source that does not compile with this header
// is compiled again with torch's own.
#pragma once

#include <torch/types.h>

#ifndef __CUDACC__
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
