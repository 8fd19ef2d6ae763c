#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

// One thread for each output element from `first` to before `last`.
__global__ void conv_transpose1d_kernel(
    const float* x, const float* weight, float* out, int in_channels, int out_channels,
    int in_length, int out_length, int kernel_size, int stride, int first, int last) {
    const int index = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= last) return;
    const int t = index % out_length;
    const int co = index / out_length % out_channels;
    const int b = index / out_length / out_channels;
    float sum = 0.0f;
    for (int k = 0; k < kernel_size; ++k) {
        const int shifted = t - k;
        if (shifted < 0 || shifted % stride != 0 || shifted / stride >= in_length) continue;
        for (int ci = 0; ci < in_channels; ++ci) {
            sum += x[(b * in_channels + ci) * in_length + shifted / stride]
                   * weight[(ci * out_channels + co) * kernel_size + k];
        }
    }
    out[index] = sum;
}

void conv_transpose1d(torch::Tensor x, torch::Tensor weight, torch::Tensor out, int64_t stride,
                      int64_t first, int64_t last) {
    if (last <= first) return;
    const int64_t blocks = (last - first + 255) / 256;
    conv_transpose1d_kernel<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), x.size(1),
        out.size(1), x.size(2), out.size(2), weight.size(2), stride, first, last);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
