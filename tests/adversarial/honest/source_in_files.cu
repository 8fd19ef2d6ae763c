#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#include "source_in_files.h"

// A block for each row of the output, its threads along the row.
__global__ void rows(const float* x, const float* weight, float* out, int in_channels,
                     int in_length, int out_length, int kernel_size, int stride) {
    const int co = blockIdx.x, out_channels = gridDim.x, b = blockIdx.y;
    for (int t = threadIdx.x; t < out_length; t += blockDim.x) {
        float sum = 0.0f;
        for (int ci = 0; ci < in_channels; ++ci) {
            const float* row = x + (b * in_channels + ci) * in_length;
            for (int k = t % stride; k < kernel_size && k <= t; k += stride) {
                const int i = (t - k) / stride;
                const float tap = weight[(ci * out_channels + co) * kernel_size + k];
                if (i < in_length) sum += row[i] * tap;
            }
        }
        out[(b * out_channels + co) * out_length + t] = sum;
    }
}

torch::Tensor conv_transpose1d(torch::Tensor x, torch::Tensor weight, int64_t stride) {
    const int64_t length = (x.size(2) - 1) * stride + weight.size(2);
    auto out = torch::empty({x.size(0), weight.size(1), length}, x.options());
    const dim3 grid(weight.size(1), x.size(0));
    rows<<<grid, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), x.size(1), x.size(2),
        length, weight.size(2), stride);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
