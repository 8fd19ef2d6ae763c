"""What follows from a transposed convolution being linear: its bound, and its adjoint."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from harness.problems.bounds import Arithmetic, Instance, Sums, largest_error
from harness.problems.families.conv_transpose1d.sizes import Convolution


def weight_and_bias(weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Find the weight (in_channels, out_channels / groups, kernel_size) and the bias, if any.

    Args:
        weights: By their name in `Model`'s state_dict.
    """
    by_last = {name.rpartition(".")[2]: value for name, value in weights.items()}
    return by_last["weight"], by_last.get("bias")


def rigorous(instance: Instance, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Sums:
    """A transposed convolution is linear: |w| on |x| sums absolute values, ones on ones count.

    A weight of 0 is no term: whatever it is added to stays as it is.
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
    """y = A x + b, on the device of its weight.

    Attributes:
        sizes: The convolution's.
        weight: (in_channels, out_channels / groups, kernel_size), float32.
        bias: (out_channels,), float32, or None.
    """

    sizes: Convolution
    weight: Tensor
    bias: Tensor | None

    def adjoint(self, signs: Tensor) -> Tensor:
        """The adjoint of a transposed convolution is an ordinary one.

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
        # What output padding appends may let one position more come back than there are inputs.
        return y[0, :, : sizes.length]

    def offset(self, signs: Tensor) -> float:
        """Give <r, b>, of which each position of a channel has the channel's bias."""
        return 0.0 if self.bias is None else float((signs.sum(1) * self.bias.double()).sum())

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Sum the squares of every output's bound, for one row of inputs up to 1."""
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
