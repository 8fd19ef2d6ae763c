// <ATen/ATen.h> without its operators; the compiler command includes the headers of those that a
// source calls. A source that does not compile with this header is compiled again with torch's own.
#pragma once

#include <torch/types.h>
