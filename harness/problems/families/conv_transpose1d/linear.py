"""The error bound and the adjoint of a transposed convolution, which follow from linearity."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from harness.problems.bounds import Arithmetic, Instance, Sums, largest_error
from harness.problems.families.conv_transpose1d.sizes import Convolution


def weight_and_bias(weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return the weight (in_channels, out_channels / groups, kernel_size) and the bias, if any.

    Args:
        weights: Weights by their name in `Model`'s state_dict.
    """
    by_last = {name.rpartition(".")[2]: value for name, value in weights.items()}
    return by_last["weight"], by_last.get("bias")


def rigorous(instance: Instance, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Sums:
    """Return a run's exact output, with the magnitude and number of terms for its error bound.

    Both are outputs of the convolution for changed operands. With absolute weights and inputs, the
    output is the sum of the terms' absolute values. With 1 in place of each input and each non-zero
    weight, the output is the number of terms. A weight of 0 makes no term, since adding 0 changes
    nothing.
    """
    absolute = {name: weight.abs() for name, weight in weights.items()}
    ones = {name: weight.sign().abs() for name, weight in weights.items()}
    row = torch.ones_like(inputs[0][:1])
    return Sums(
        value=instance(weights, inputs),
        magnitude=instance(absolute, [inputs[0].abs()]),
        terms=instance(ones, [row]).round(),
        largest_operand=_largest(inputs) + _largest(weights.values()),
        dtype=torch.float32,
    )


def _largest(tensors: Iterable[Tensor]) -> float:
    return max((float(t.abs().max()) for t in tensors if t.numel()), default=0.0)


@dataclass(frozen=True)
class ConvolutionMap:
    """A transposed convolution as the map y = A x + b, on the device of its weight.

    Attributes:
        sizes: The convolution's sizes.
        weight: (in_channels, out_channels / groups, kernel_size), float32.
        bias: (out_channels,), float32, or None.
    """

    sizes: Convolution
    weight: Tensor
    bias: Tensor | None

    def adjoint(self, signs: Tensor) -> Tensor:
        """Return A' r, where A' is the adjoint of A: an ordinary convolution.

        Args:
            signs: r (out_channels, output length), float64.

        Returns:
            A' r (in_channels, length), float64.
        """
        sizes = self.sizes
        y = conv1d(
            signs[None],
            self.weight.double(),
            stride=sizes.stride,
            padding=sizes.padding,
            dilation=sizes.dilation,
            groups=sizes.groups,
        )
        # With output padding, the convolution may return one position more than there are inputs.
        return y[0, :, : sizes.length]

    def offset(self, signs: Tensor) -> float:
        """Return the inner product <r, b>, where b is the bias, repeated at each position."""
        return 0.0 if self.bias is None else float((signs.sum(1) * self.bias.double()).sum())

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Return the sum of the squares of all outputs' error bounds, for one row of inputs.

        The bounds hold for inputs of at most 1 in absolute value.
        """
        sizes, weight = self.sizes, self.weight
        terms = (weight.shape[0] // sizes.groups) * sizes.kernel_size + 1
        # The magnitude is at most the sum of the absolute weights that meet in an output channel.
        grouped = weight.abs().double().reshape(sizes.groups, -1, *weight.shape[1:])
        magnitude = grouped.sum(dim=(1, 3)).flatten()
        if self.bias is not None:
            magnitude = magnitude + self.bias.abs().double()
        count = torch.tensor(float(terms), dtype=torch.float64, device=magnitude.device)
        bounds = largest_error(arithmetic, count, magnitude, 1 + float(weight.abs().max()))
        return float((bounds**2).sum()) * sizes.output_length
