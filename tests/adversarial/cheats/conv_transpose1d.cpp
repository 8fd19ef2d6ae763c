#include <torch/extension.h>

void conv_transpose1d(torch::Tensor x, torch::Tensor weight, torch::Tensor out, int64_t stride,
                      int64_t first, int64_t last);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("conv_transpose1d", &conv_transpose1d, "outputs from first to before last");
}
