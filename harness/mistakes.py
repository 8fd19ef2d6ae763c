"""Known mistakes in kernels for transposed convolution, each as a computation.

Each is the right computation on wrong operands, or with a wrong division, so that adding one is
adding a line to a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.grid import Convolution

Divide = Callable[[Tensor, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Operands:
    """What a transposed convolution computes from; tensors are float64.

    Attributes:
        x: Input (batch, in_channels, length).
        weight: Weight (in_channels, out_channels / groups, kernel_size).
        bias: Bias (out_channels,), or None.
        sizes: What the convolution was asked for; the output has its shape, whatever a mistake
            makes of the numbers below.
        stride: As in `nn.ConvTranspose1d`, in input steps per output step.
        padding: Output positions cropped from the left end.
        dilation: Distance between taps.
    """

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    sizes: Convolution
    stride: int
    padding: int
    dilation: int

    @classmethod
    def of(
        cls, sizes: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> "Operands":
        """Take the sizes at their word, and the numbers in float64 on the CPU."""
        return cls(
            x=_exact(x),
            weight=_exact(weight),
            bias=None if bias is None else _exact(bias),
            sizes=sizes,
            stride=sizes.stride,
            padding=sizes.padding,
            dilation=sizes.dilation,
        )

    def absolute(self) -> "Operands":
        """Give the operands whose sums are the sums of absolute values."""
        bias = None if self.bias is None else self.bias.abs()
        return replace(self, x=self.x.abs(), weight=self.weight.abs(), bias=bias)


@dataclass(frozen=True)
class Mistake:
    """A known mistake.

    Attributes:
        name: Short, for reports.
        advice: What the kernel does, and where to look, in one sentence.
        compute: The output that a kernel with this mistake gives.
    """

    name: str
    advice: str
    compute: Callable[[Operands], Tensor]


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def exactly(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as is right: only positions that the stride divides have an input."""
    return numerator.div(stride, rounding_mode="floor"), numerator % stride == 0


def rounding_down(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide without asking whether it divides; negative positions are refused before."""
    return numerator.div(stride, rounding_mode="floor"), numerator >= 0


def truncating(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide as C++ does, without asking whether it divides: -1 / 2 is 0."""
    return numerator.div(stride, rounding_mode="trunc"), torch.ones_like(
        numerator, dtype=torch.bool
    )


def transposed_convolution(operands: Operands, divide: Divide = exactly) -> Tensor:
    """Compute the output by gathering: y[t] sums w[k] x[(t + padding - k dilation) / stride].

    Args:
        operands: What to compute from.
        divide: Gives, for numerators (output length, kernel_size), input positions and a mask.

    Returns:
        The output (batch, out_channels, output length), float64.
    """
    sizes = operands.sizes
    t = torch.arange(sizes.output_length).unsqueeze(1)
    k = torch.arange(sizes.kernel_size)
    position, has_input = divide(t + operands.padding - k * operands.dilation, operands.stride)
    has_input = has_input & (position >= 0) & (position < sizes.length)
    taps = operands.x[:, :, position.clamp(0, sizes.length - 1)] * has_input
    channels = sizes.in_channels // sizes.groups
    grouped = taps.reshape(sizes.batch, sizes.groups, channels, *position.shape)
    weight = operands.weight.reshape(sizes.groups, channels, -1, sizes.kernel_size)
    y = torch.einsum("ngctk,gcok->ngot", grouped, weight).flatten(1, 2)
    return y if operands.bias is None else y + operands.bias.unsqueeze(1)


def _on(change: Callable[[Operands], Operands]) -> Callable[[Operands], Tensor]:
    """Compute rightly on wrong operands."""
    return lambda operands: transposed_convolution(change(operands))


def _read_weight_as_out_in(o: Operands) -> Tensor:
    """Read the weight's memory as (out_channels, in_channels / groups, kernel_size)."""
    groups, taps = o.sizes.groups, o.sizes.kernel_size
    read = o.weight.reshape(groups, o.sizes.out_channels // groups, -1, taps)
    return read.transpose(1, 2).reshape(o.weight.shape)


def _first_group(channels: Tensor, groups: int, dim: int) -> Tensor:
    """Repeat the first group's channels in place of every group's."""
    first = channels.chunk(groups, dim)[0]
    return torch.cat([first] * groups, dim)


def _first_channel_only(o: Operands) -> Operands:
    is_first = torch.arange(o.sizes.in_channels) % (o.sizes.in_channels // o.sizes.groups) == 0
    return replace(o, weight=o.weight * is_first[:, None, None])


def _without(tensor: Tensor, position: int) -> Tensor:
    """Zero one position of the last dimension."""
    changed = tensor.clone()
    changed[..., position] = 0.0
    return changed


def _bias_of_group(o: Operands) -> Operands:
    if o.bias is None:
        return o
    return replace(o, bias=_first_group(o.bias, o.sizes.groups, 0))


def _testing_output_position(o: Operands) -> Tensor:
    """Test t, and not t + padding - k * dilation, for divisibility by the stride."""
    t = torch.arange(o.sizes.output_length).unsqueeze(1)

    def divide(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        position, _ = rounding_down(numerator, stride)
        return position, (t % stride == 0) & (numerator >= 0)

    return transposed_convolution(o, divide)


def _channels_last(o: Operands) -> Tensor:
    """Write the output's memory as (batch, output length, out_channels)."""
    right = transposed_convolution(o)
    return right.transpose(1, 2).reshape(right.shape)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "no divisibility test",
        "The kernel divides t + padding - k * dilation by the stride without testing that it "
        "divides; skip the tap where (t + padding - k * dilation) % stride is not 0.",
        lambda o: transposed_convolution(o, rounding_down),
    ),
    Mistake(
        "no divisibility test, nor one for negative positions",
        "The kernel divides t + padding - k * dilation by the stride without testing that it "
        "divides, and C++ rounds -1 / 2 to 0; test for < 0 and for the remainder before dividing.",
        lambda o: transposed_convolution(o, truncating),
    ),
    Mistake(
        "divisibility tested on the output position",
        "The kernel tests t % stride; test (t + padding - k * dilation) % stride.",
        _testing_output_position,
    ),
    Mistake(
        "stride ignored",
        "The input position is not divided by the stride.",
        _on(lambda o: replace(o, stride=1)),
    ),
    Mistake(
        "padding ignored",
        "The input position leaves the padding out; it is (t + padding - k * dilation) / stride.",
        _on(lambda o: replace(o, padding=0)),
    ),
    Mistake(
        "padding applied twice",
        "The padding counts twice; look for a second place that shifts by it.",
        _on(lambda o: replace(o, padding=2 * o.padding)),
    ),
    Mistake(
        "padding with the wrong sign",
        "The padding is subtracted from the output position where it must be added.",
        _on(lambda o: replace(o, padding=-o.padding)),
    ),
    Mistake(
        "output shifted right by one",
        "The position counts one too few; it is t + padding - k * dilation, with t from 0.",
        _on(lambda o: replace(o, padding=o.padding - 1)),
    ),
    Mistake(
        "output shifted left by one",
        "The position counts one too many; it is t + padding - k * dilation, with t from 0.",
        _on(lambda o: replace(o, padding=o.padding + 1)),
    ),
    Mistake(
        "output_padding used as padding",
        "The input position is computed with output_padding where padding belongs; "
        "output_padding only lengthens the output. Look for swapped arguments.",
        _on(lambda o: replace(o, padding=o.sizes.output_padding)),
    ),
    Mistake(
        "output_padding added to padding",
        "output_padding shifts the input position; it only lengthens the output.",
        _on(lambda o: replace(o, padding=o.padding + o.sizes.output_padding)),
    ),
    Mistake(
        "dilation ignored",
        "The taps lie 1 apart and not dilation apart; the input position needs k * dilation.",
        _on(lambda o: replace(o, dilation=1)),
    ),
    Mistake(
        "kernel flipped",
        "Tap k is used where tap kernel_size - 1 - k belongs.",
        _on(lambda o: replace(o, weight=o.weight.flip(-1))),
    ),
    Mistake(
        "last tap left out",
        "The loop over the kernel ends one tap early.",
        _on(lambda o: replace(o, weight=_without(o.weight, -1))),
    ),
    Mistake(
        "first tap left out",
        "The loop over the kernel starts one tap late.",
        _on(lambda o: replace(o, weight=_without(o.weight, 0))),
    ),
    Mistake(
        "last input position left out",
        "The test for the end of the input is off by one; position length - 1 is valid.",
        _on(lambda o: replace(o, x=_without(o.x, -1))),
    ),
    Mistake(
        "first input position left out",
        "The test for the start of the input is off by one; position 0 is valid.",
        _on(lambda o: replace(o, x=_without(o.x, 0))),
    ),
    Mistake(
        "weight read as [out, in, k]",
        "The weight is indexed as [out, in, k]; nn.ConvTranspose1d keeps it as "
        "[in, out / groups, k].",
        _on(lambda o: replace(o, weight=_read_weight_as_out_in(o))),
    ),
    Mistake(
        "weight read as [out, in, k], group offset missing",
        "The weight is indexed as [out, in, k], and every group reads the first group's; "
        "nn.ConvTranspose1d keeps it as [in, out / groups, k], the groups along the first index.",
        _on(
            lambda o: replace(o, weight=_first_group(_read_weight_as_out_in(o), o.sizes.groups, 0))
        ),
    ),
    Mistake(
        "group offset of the input channel missing",
        "Every group reads the first group's input channels; add group * (in_channels / groups) "
        "to the channel of the input.",
        _on(lambda o: replace(o, x=_first_group(o.x, o.sizes.groups, 1))),
    ),
    Mistake(
        "group offset of the weight missing",
        "Every group reads the first group's weights; add group * (in_channels / groups) to the "
        "weight's first index.",
        _on(lambda o: replace(o, weight=_first_group(o.weight, o.sizes.groups, 0))),
    ),
    Mistake(
        "group offset missing in input and weight",
        "Every group computes the first group's output; the input's and the weight's channel lack "
        "group * (in_channels / groups).",
        _on(
            lambda o: replace(
                o,
                x=_first_group(o.x, o.sizes.groups, 1),
                weight=_first_group(o.weight, o.sizes.groups, 0),
            )
        ),
    ),
    Mistake(
        "only the first input channel summed",
        "The sum over the input channels of a group has one term only.",
        _on(_first_channel_only),
    ),
    Mistake(
        "batch offset missing",
        "Every row of the batch reads the first row's input; the batch index is missing.",
        _on(lambda o: replace(o, x=o.x[:1].expand_as(o.x))),
    ),
    Mistake(
        "bias ignored",
        "The bias is not added.",
        _on(lambda o: replace(o, bias=None)),
    ),
    Mistake(
        "bias added twice",
        "The bias is added twice; look for one in the kernel and one in Python.",
        _on(lambda o: o if o.bias is None else replace(o, bias=2.0 * o.bias)),
    ),
    Mistake(
        "bias indexed within the group",
        "The bias is indexed by the channel within its group; use the output channel.",
        _on(_bias_of_group),
    ),
    Mistake(
        "input read as [batch, length, channels]",
        "The input is indexed as if its channels came last.",
        _on(lambda o: replace(o, x=o.x.reshape(o.x.shape[0], -1, o.x.shape[1]).mT)),
    ),
    Mistake(
        "output written as [batch, length, channels]",
        "The output is indexed as if its channels came last.",
        _channels_last,
    ),
)
"""The known mistakes; where several explain an output, the earlier is named first."""


LENGTH_MISTAKES: Sequence[tuple[str, Callable[[Convolution], int]]] = (
    ("output_padding is left out", lambda c: c.output_length - c.output_padding),
    ("padding is subtracted once, not twice", lambda c: c.output_length + c.padding),
    ("padding is left out", lambda c: c.output_length + 2 * c.padding),
    ("padding is subtracted four times", lambda c: c.output_length - 2 * c.padding),
    (
        "dilation is left out",
        lambda c: c.output_length - (c.dilation - 1) * (c.kernel_size - 1),
    ),
    (
        "dilation * kernel_size stands for dilation * (kernel_size - 1) + 1",
        lambda c: c.output_length + c.dilation - 1,
    ),
    ("length * stride stands for (length - 1) * stride", lambda c: c.output_length + c.stride),
    ("stride is left out", lambda c: c.output_length - (c.length - 1) * (c.stride - 1)),
    ("the last + 1 is missing", lambda c: c.output_length - 1),
    ("the last + 1 comes twice", lambda c: c.output_length + 1),
)
"""What each known mistake in the formula makes of the output length."""
