"""A transposed convolution as kernels compute it, each step of which a mistake can change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.problems.families.conv_transpose1d.sizes import Convolution

Divide = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def exactly(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as is right: only positions that the stride divides have an input, and 0 divides none.

    A stride of 0 is another number in its place.
    """
    if stride == 0:
        return numerator, torch.zeros_like(numerator, dtype=torch.bool)
    return numerator.div(stride, rounding_mode="floor"), numerator % stride == 0


def rounding_down(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide without asking whether it divides; negative positions are refused before."""
    return numerator.div(stride, rounding_mode="floor"), numerator >= 0


def multiplying(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Multiply by the stride, as a convolution that is not transposed does."""
    return numerator * stride, torch.ones_like(numerator, dtype=torch.bool)


def undivided(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Take the numerator for the position itself."""
    del stride
    return multiplying(numerator, 1)


def truncating(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as C++ does, without asking whether it divides: -1 / 2 is 0."""
    return numerator.div(stride, rounding_mode="trunc"), torch.ones_like(
        numerator, dtype=torch.bool
    )


def _as_it_is(y: Tensor) -> Tensor:
    return y


# Output channels of each group that refute a mistake as well as all of them.
_SAMPLED = 4


@dataclass(frozen=True)
class Gather:
    """A transposed convolution as a kernel does it; tensors are float64.

    Attributes:
        x: Input (batch, in_channels, length). NaN is here, and in the weight, what a mistake reads
            out of bounds: the simulator gives that to the kernel.
        weight: Weight (in_channels, out_channels / groups, kernel_size).
        bias: Bias (out_channels,), or None.
        sizes: What the convolution was asked for; the output has its shape, whatever a mistake
            makes of the numbers below.
        stride: As in `nn.ConvTranspose1d`, in input steps per output step.
        padding: Output positions cropped from the left end.
        dilation: Distance between taps.
        numerator: Gives, for output positions (output length, 1) and taps (kernel_size,), what the
            stride divides.
        divide: Gives, for numerators (output length, kernel_size), input positions and a mask.
        finish: What becomes of the output.
        is_absolute: Whether all numbers count by their absolute values.
    """

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    sizes: Convolution
    stride: int
    padding: int
    dilation: int
    numerator: "Numerator" = lambda c, t, k: t + c.padding - k * c.dilation
    divide: Divide = exactly
    finish: Callable[[Tensor], Tensor] = _as_it_is
    is_absolute: bool = False

    @classmethod
    def of(
        cls, sizes: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> "Gather":
        """The right one: takes the sizes at their word, and the numbers in float64 on the CPU."""
        return cls(
            x=_exact(x),
            weight=_exact(weight),
            bias=None if bias is None else _exact(bias),
            sizes=sizes,
            stride=sizes.stride,
            padding=sizes.padding,
            dilation=sizes.dilation,
        )

    @property
    def terms(self) -> float:
        """The most terms that an output sums, as `problems.mistakes.Computation` has it."""
        return self.weight.shape[0] * self.weight.shape[2] + 1.0

    @cached_property
    def scale(self) -> float:
        """More than any sum of so many terms is, whatever a mistake makes of them."""
        bias = 0.0 if self.bias is None else float(self.bias.abs().max())
        taps = self.weight.abs().amax(1).sum()
        return float(taps * self.x.abs().max()) + 2 * bias

    @property
    def work(self) -> int:
        """Multiply-adds, as of `sizes`."""
        return self.sizes.work

    def absolute(self) -> "Gather":
        """Give the one whose sums are the sums of absolute values."""
        return replace(self, is_absolute=True)

    def output(self) -> Tensor:
        """Compute by gathering: y[t] sums w[k] x[(t + padding - k dilation) / stride].

        Returns:
            The output (batch, out_channels, output length), float64.
        """
        return self.finish(self._summed(self.sizes.out_channels // self.sizes.groups))

    def sample(self) -> tuple[Tensor, Tensor]:
        """A few output channels of each group, unless the output is still to be changed."""
        outputs = self.sizes.out_channels // self.sizes.groups
        if self.finish is not _as_it_is or outputs <= _SAMPLED:
            return self.output(), torch.arange(self.sizes.out_channels)
        channels = torch.arange(self.sizes.out_channels).view(-1, outputs)[:, :_SAMPLED]
        return self._summed(_SAMPLED), channels.flatten()

    def _summed(self, outputs: int) -> Tensor:
        """The first so many output channels of each group, before they are finished."""
        sizes = self.sizes
        count = torch.abs if self.is_absolute else torch.positive
        x, weight = count(self.x), count(self.weight)
        bias = None if self.bias is None else count(self.bias)
        t = torch.arange(sizes.output_length).unsqueeze(1)
        # Not the sizes': whose arguments are swapped takes others.
        k = torch.arange(weight.shape[-1])
        position, has_input = self.divide(self.numerator(self, t, k), self.stride)
        # Not the sizes' either.
        length = x.shape[-1]
        has_input = has_input & (position >= 0) & (position < length)
        taps = x[:, :, position.clamp(0, length - 1)].where(has_input, 0.0)
        if not bool(x.isnan().any() | weight.isnan().any()):
            y = self._products(taps, weight, outputs)
        else:
            y = self._products(taps.nan_to_num(), weight.nan_to_num(), outputs)
            # What no tap reads does not count, though nothing times NaN is NaN.
            read = has_input.double().expand_as(taps)
            outside = self._products(taps.isnan().double(), torch.ones_like(weight), outputs)
            outside += self._products(read, weight.isnan().double(), outputs)
            y = y.masked_fill(outside > 0, torch.nan)
        if bias is not None:
            y = y + bias.view(sizes.groups, -1, 1)[:, :outputs]
        return y.flatten(1, 2)

    def _products(self, taps: Tensor, weight: Tensor, outputs: int) -> Tensor:
        """Sum the products of what the taps read with the weights, in groups.

        Args:
            taps: (batch, in_channels, output length, taps).
            weight: As the computation's, but with as many taps.
            outputs: How many channels of each group.

        Returns:
            (batch, groups, outputs, output length).
        """
        sizes = self.sizes
        channels = sizes.in_channels // sizes.groups
        grouped = taps.reshape(sizes.batch, sizes.groups, channels, *taps.shape[2:])
        by_group = weight.reshape(sizes.groups, channels, -1, weight.shape[-1])[:, :, :outputs]
        return torch.einsum("ngctk,gcok->ngot", grouped, by_group)

    def parts(self) -> Mapping[str, Tensor]:
        """Edges, phases of the stride, groups."""
        sizes = self.sizes
        t = torch.arange(sizes.output_length).unsqueeze(1)
        k = torch.arange(sizes.kernel_size)
        position, divides = self.divide(self.numerator(self, t, k), self.stride)
        is_inside = (position >= 0) & (position < sizes.length)
        phase = (t.flatten() + sizes.padding) % sizes.stride
        place = torch.arange(sizes.out_channels).unsqueeze(1)
        outputs = sizes.out_channels // sizes.groups
        is_behind_first = torch.ones(sizes.batch, sizes.out_channels, 1, dtype=torch.bool)
        is_behind_first[:1, 0] = False
        return {
            "where no tap has an input": ~(divides & is_inside).any(1),
            "where a tap lies outside of the input": (divides & ~is_inside).any(1),
            "where t + padding is a multiple of the stride": phase == 0,
            "where t + padding is no multiple of the stride": phase != 0,
            "in groups behind the first": place >= outputs,
            "in output channels that are not the first of their group": place % outputs != 0,
            "behind the first channel of the batch's first row": is_behind_first,
        }


Numerator = Callable[[Gather, Tensor, Tensor], Tensor]


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()
