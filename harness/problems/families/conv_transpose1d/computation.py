"""A transposed convolution in the steps of a kernel, each of which a mistake can change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.problems.families.conv_transpose1d.sizes import Convolution

# From numerators and a stride to input positions, and a mask of those that have an input.
Divide = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def exactly(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as a correct kernel does: a tap has an input only if the stride divides its numerator.

    The numerator of tap k is t + padding - k * dilation, where t is the output position. The result
    consists of input positions, and a mask that is True where the tap has an input. If a mistake
    has replaced the stride by 0, no tap has an input.
    """
    if stride == 0:
        return numerator, torch.zeros_like(numerator, dtype=torch.bool)
    return numerator.div(stride, rounding_mode="floor"), numerator % stride == 0


def rounding_down(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide without a test of divisibility; only taps with a negative numerator have no input."""
    return numerator.div(stride, rounding_mode="floor"), numerator >= 0


def multiplying(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Multiply the numerator by the stride, as a convolution that is not transposed does."""
    return numerator * stride, torch.ones_like(numerator, dtype=torch.bool)


def undivided(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Use the numerator itself as the input position."""
    del stride
    return multiplying(numerator, 1)


def truncating(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as C++ does, without a test of divisibility: -1 / 2 is 0."""
    return numerator.div(stride, rounding_mode="trunc"), torch.ones_like(
        numerator, dtype=torch.bool
    )


def _as_it_is(y: Tensor) -> Tensor:
    return y


# This many output channels of each group refute a mistake about as well as all of them.
_SAMPLED = 4


@dataclass(frozen=True)
class Gather:
    """A transposed convolution as a kernel computes it; all tensors are float64.

    The kernel gathers: each output position looks for the inputs that reach it. The fields below
    are the steps that a mistake can change.

    Attributes:
        x: Input (batch, in_channels, length). In `x` and `weight`, NaN marks elements that a
            mistake reads out of bounds: the simulator returns NaN for such a read as well.
        weight: Weight (in_channels, out_channels / groups, kernel_size).
        bias: Bias (out_channels,), or None.
        sizes: The sizes that the caller asked for. They decide the output's shape, even if a
            mistake changes the numbers below.
        stride: Number of output steps per input step, as in `nn.ConvTranspose1d`.
        padding: Number of output positions cropped from the left end.
        dilation: Distance between taps.
        numerator: Function that returns the numbers to divide by the stride. Its arguments are this
            computation, the output positions (output length, 1), and the taps (kernel_size,).
        divide: Function that divides numerators (output length, kernel_size) by the stride. It
            returns input positions, and a mask that is True where the tap has an input.
        finish: Function that changes the finished output.
        is_absolute: True if input, weight and bias count by their absolute values.
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
        """Return the correct computation for some sizes, with all tensors as float64 on the CPU."""
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
        """An upper bound on the number of terms in the sum of one output element, with the bias."""
        return self.weight.shape[0] * self.weight.shape[2] + 1.0

    @cached_property
    def scale(self) -> float:
        """An upper bound on the sum of an output's absolute terms, with or without a mistake."""
        bias = 0.0 if self.bias is None else float(self.bias.abs().max())
        taps = self.weight.abs().amax(1).sum()
        return float(taps * self.x.abs().max()) + 2 * bias

    @property
    def work(self) -> int:
        """Number of multiply-adds of the correct computation (`Convolution.work`)."""
        return self.sizes.work

    def absolute(self) -> "Gather":
        """Return the same computation with the absolute values of input, weight and bias."""
        return replace(self, is_absolute=True)

    def output(self) -> Tensor:
        """Compute the output by gathering: y[t] sums w[k] x[(t + padding - k dilation) / stride].

        Returns:
            The output (batch, out_channels, output length), float64.
        """
        return self.finish(self._summed(self.sizes.out_channels // self.sizes.groups))

    def sample(self) -> tuple[Tensor, Tensor]:
        """Compute at most four output channels of each group; return them and their indices.

        If `finish` changes the output, all channels are computed.
        """
        outputs = self.sizes.out_channels // self.sizes.groups
        if self.finish is not _as_it_is or outputs <= _SAMPLED:
            return self.output(), torch.arange(self.sizes.out_channels)
        channels = torch.arange(self.sizes.out_channels).view(-1, outputs)[:, :_SAMPLED]
        return self._summed(_SAMPLED), channels.flatten()

    def _summed(self, outputs: int) -> Tensor:
        """Compute the first `outputs` channels of each group, without applying `finish`."""
        sizes = self.sizes
        count = torch.abs if self.is_absolute else torch.positive
        x, weight = count(self.x), count(self.weight)
        bias = None if self.bias is None else count(self.bias)
        t = torch.arange(sizes.output_length).unsqueeze(1)
        # The taps are those of the weight, not of the sizes: swapped arguments change their number.
        k = torch.arange(weight.shape[-1])
        position, has_input = self.divide(self.numerator(self, t, k), self.stride)
        # The length is that of the input, for the same reason.
        length = x.shape[-1]
        has_input = has_input & (position >= 0) & (position < length)
        taps = x[:, :, position.clamp(0, length - 1)].where(has_input, 0.0)
        if not bool(x.isnan().any() | weight.isnan().any()):
            y = self._products(taps, weight, outputs)
        else:
            y = self._products(taps.nan_to_num(), weight.nan_to_num(), outputs)
            # An output is NaN only if a tap reads NaN. In the plain product, an unread NaN times 0
            # would make it NaN as well, so NaN is counted by itself.
            read = has_input.double().expand_as(taps)
            outside = self._products(taps.isnan().double(), torch.ones_like(weight), outputs)
            outside += self._products(read, weight.isnan().double(), outputs)
            y = y.masked_fill(outside > 0, torch.nan)
        if bias is not None:
            y = y + bias.view(sizes.groups, -1, 1)[:, :outputs]
        return y.flatten(1, 2)

    def _products(self, taps: Tensor, weight: Tensor, outputs: int) -> Tensor:
        """Return the sums of products of the read inputs with the weights, in groups.

        Args:
            taps: Inputs that the taps read (batch, in_channels, output length, taps).
            weight: Weight in the layout of `Gather.weight`, with as many taps as `taps` has.
            outputs: Number of output channels of each group.

        Returns:
            The sums (batch, groups, outputs, output length).
        """
        sizes = self.sizes
        channels = sizes.in_channels // sizes.groups
        grouped = taps.reshape(sizes.batch, sizes.groups, channels, *taps.shape[2:])
        by_group = weight.reshape(sizes.groups, channels, -1, weight.shape[-1])[:, :, :outputs]
        return torch.einsum("ngctk,gcok->ngot", grouped, by_group)

    def parts(self) -> Mapping[str, Tensor]:
        """Return masks of parts of the output (edges, stride phases, groups), by description."""
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


# From a computation, output positions and taps to what the stride divides.
Numerator = Callable[[Gather, Tensor, Tensor], Tensor]


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()
