"""Transposed 1-D convolution with every parameter of nn.ConvTranspose1d, bias included.

One thread per output element. Channels are taken group by group: output channel co belongs to
group co / (out_channels / groups) and sees only that group's in_channels / groups inputs, so a
thread does at most in_channels / groups * kernel_size multiply-adds. The sum starts from the bias,
which therefore costs no pass of its own. Launched on PyTorch's current stream and on the input's
device, so it may run beside other work, or be captured in a CUDA graph.
"""

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor conv_transpose1d_grouped(
    const torch::Tensor& x,
    const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t stride,
    int64_t padding,
    int64_t output_padding,
    int64_t groups,
    int64_t dilation);
"""

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>

#include <limits>
#include <optional>

namespace {

constexpr int kThreadsPerBlock = 256;

struct Shape {
    int64_t total;
    int in_channels_per_group;
    int out_channels_per_group;
    int groups;
    int in_length;
    int out_length;
    int kernel_size;
    int stride;
    int padding;
    int dilation;
};

__global__ void conv_transpose1d_grouped_kernel(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out,
    const Shape shape) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= shape.total) {
        return;
    }
    // (batch, group, channel within the group, position), the last the fastest.
    const int64_t row = index / shape.out_length;
    const int t = static_cast<int>(index - row * shape.out_length);
    const int64_t batch_and_group = row / shape.out_channels_per_group;
    const int channel = static_cast<int>(row - batch_and_group * shape.out_channels_per_group);
    const int group = static_cast<int>(batch_and_group % shape.groups);

    // The groups' input channels follow each other too: (batch, group) is one index here as well.
    const float* x_group = x + batch_and_group * shape.in_channels_per_group * shape.in_length;
    const int64_t weight_step =
        static_cast<int64_t>(shape.out_channels_per_group) * shape.kernel_size;
    const float* weight_group = weight + group * shape.in_channels_per_group * weight_step
                                + static_cast<int64_t>(channel) * shape.kernel_size;

    float sum = bias == nullptr ? 0.0f : bias[group * shape.out_channels_per_group + channel];
    for (int k = 0; k < shape.kernel_size; ++k) {
        const int numerator = t + shape.padding - k * shape.dilation;
        if (numerator < 0) {
            break;
        }
        if (numerator % shape.stride != 0) {
            continue;
        }
        const int i = numerator / shape.stride;
        if (i >= shape.in_length) {
            continue;
        }
        for (int c = 0; c < shape.in_channels_per_group; ++c) {
            sum += x_group[static_cast<int64_t>(c) * shape.in_length + i]
                   * weight_group[c * weight_step + k];
        }
    }
    out[index] = sum;
}

void check_operand(
    const torch::Tensor& tensor, const torch::Tensor& x, int64_t dim, const char* name) {
    TORCH_CHECK(tensor.is_cuda(), name, " must be a CUDA tensor");
    TORCH_CHECK(tensor.device() == x.device(), name, " must be on the same device as x");
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, name, " must be float32");
    TORCH_CHECK(tensor.dim() == dim, name, " must have ", dim, " dimensions");
}

}  // namespace

torch::Tensor conv_transpose1d_grouped(
    const torch::Tensor& x,
    const torch::Tensor& weight,
    const std::optional<torch::Tensor>& bias,
    int64_t stride,
    int64_t padding,
    int64_t output_padding,
    int64_t groups,
    int64_t dilation) {
    check_operand(x, x, 3, "x");
    check_operand(weight, x, 3, "weight");
    TORCH_CHECK(x.size(1) == weight.size(0), "x must have ", weight.size(0), " channels");
    TORCH_CHECK(stride > 0 && dilation > 0, "stride and dilation must be positive");
    TORCH_CHECK(padding >= 0 && output_padding >= 0, "padding must not be negative");
    TORCH_CHECK(groups > 0 && x.size(1) % groups == 0, "channels must be divisible by groups");

    const int64_t in_length = x.size(2);
    const int64_t kernel_size = weight.size(2);
    const int64_t out_channels = weight.size(1) * groups;
    const int64_t reach = dilation * (kernel_size - 1);
    const int64_t out_length = (in_length - 1) * stride - 2 * padding + reach + output_padding + 1;
    TORCH_CHECK(in_length > 0 && out_length > 0, "calculated output length ", out_length,
                " is too small");
    const int64_t int_max = std::numeric_limits<int>::max();
    TORCH_CHECK(in_length <= int_max && out_length + padding <= int_max && reach <= int_max,
                "positions along one axis must fit 32 bits");

    const c10::DeviceGuard device_guard(x.device());
    const auto x_dense = x.contiguous();
    const auto weight_dense = weight.contiguous();
    torch::Tensor bias_dense;
    if (bias.has_value()) {
        check_operand(*bias, x, 1, "bias");
        TORCH_CHECK(bias->size(0) == out_channels, "bias must have ", out_channels, " elements");
        bias_dense = bias->contiguous();
    }
    auto out = torch::empty({x.size(0), out_channels, out_length}, x.options());
    if (out.numel() == 0) {
        return out;
    }

    const Shape shape{
        out.numel(),
        static_cast<int>(x.size(1) / groups),
        static_cast<int>(weight.size(1)),
        static_cast<int>(groups),
        static_cast<int>(in_length),
        static_cast<int>(out_length),
        static_cast<int>(kernel_size),
        static_cast<int>(stride),
        static_cast<int>(padding),
        static_cast<int>(dilation)};
    const int64_t blocks = (shape.total + kThreadsPerBlock - 1) / kThreadsPerBlock;
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    const dim3 grid(static_cast<unsigned int>(blocks));
    conv_transpose1d_grouped_kernel<<<grid, kThreadsPerBlock, 0, stream>>>(
        x_dense.data_ptr<float>(),
        weight_dense.data_ptr<float>(),
        bias.has_value() ? bias_dense.data_ptr<float>() : nullptr,
        out.data_ptr<float>(),
        shape);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

extension = load_inline(
    name="conv_transpose1d_grouped_bias",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["conv_transpose1d_grouped"],
    verbose=False,
)


class ModelNew(nn.Module):
    """Transposed 1-D convolution with the parameters of nn.ConvTranspose1d; float32, forward only.

    Raises:
        ValueError: `groups` does not divide both numbers of channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0 or out_channels % groups != 0:
            raise ValueError(f"groups={groups} must divide {in_channels=} and {out_channels=}")
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.groups = groups
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels // groups, kernel_size))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias as nn.ConvTranspose1d does, in the same order."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight.size(1) * self.weight.size(2))
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, in_channels, length) to (batch, out_channels, output length)."""
        return extension.conv_transpose1d_grouped(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )
