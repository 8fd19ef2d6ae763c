"""The two operands of a transposed convolution, as `problems.factors` defines them."""

import torch
from torch import Tensor
from torch.nn.functional import conv_transpose1d

from harness.problems.factors import Factor
from harness.problems.families.conv_transpose1d.sizes import Convolution


def factors_of(sizes: Convolution, weight: Tensor, x: Tensor) -> tuple[Factor, Factor]:
    """Return the convolution's weight and input, as operands with their maps to the output.

    The maps of the weight use the input minus its mean. Otherwise, the mean of positive inputs,
    which has the same effect for all weights, would hide how the weights differ.

    Args:
        sizes: The convolution's sizes.
        weight: (in_channels, out_channels / groups, kernel_size), float32.
        x: (batch, in_channels, length), float32.
    """
    weights, inputs = weight.double(), x.double()
    around_mean = inputs - inputs.mean()

    def output(x: Tensor, weight: Tensor) -> Tensor:
        return conv_transpose1d(
            x,
            weight,
            stride=sizes.stride,
            padding=sizes.padding,
            output_padding=sizes.output_padding,
            groups=sizes.groups,
            dilation=sizes.dilation,
        )

    def gradients(errors: Tensor, x: Tensor, wanted: list[bool]) -> tuple[Tensor, Tensor]:
        of_input, of_weight, _ = torch.ops.aten.convolution_backward(
            errors,
            x,
            weights,
            None,
            [sizes.stride],
            [sizes.padding],
            [sizes.dilation],
            True,
            [sizes.output_padding],
            sizes.groups,
            wanted,
        )
        return of_input, of_weight

    return (
        Factor(
            "weight",
            weight,
            lambda values: output(around_mean, values),
            lambda errors: gradients(errors, around_mean, [False, True, False])[1],
        ),
        Factor(
            "input",
            x,
            lambda values: output(values, weights),
            lambda errors: gradients(errors, inputs, [True, False, False])[0],
        ),
    )
