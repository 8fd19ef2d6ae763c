#include <torch/extension.h>

#include "source_in_files.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("conv_transpose1d", &conv_transpose1d, "transposed convolution");
}
