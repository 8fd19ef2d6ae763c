"""Known mistakes in kernels for transposed convolution; to add one, add an entry to the table.

Each mistake is a function from one `Gather` to another, so that several can be combined. The
diagnosis searches single mistakes, then pairs and triples. A mistake with `comes_alone` is only
tried as a single one, which keeps the pairs and triples few.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from harness.problems.families.conv_transpose1d.computation import (
    Gather,
    multiplying,
    rounding_down,
    truncating,
    undivided,
)
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.mistakes import Mistake


def _read_weight_as_out_in(c: Gather) -> Tensor:
    """Return the weight as read in layout (out_channels, in_channels / groups, kernel_size)."""
    groups, taps = c.sizes.groups, c.sizes.kernel_size
    read = c.weight.reshape(groups, c.sizes.out_channels // groups, -1, taps)
    return read.transpose(1, 2).reshape(c.weight.shape)


def _first_group(channels: Tensor, groups: int, dim: int) -> Tensor:
    """Return a tensor in which every group has the channels of the first group."""
    first = channels.chunk(groups, dim)[0]
    return torch.cat([first] * groups, dim)


def _without(tensor: Tensor, position: int) -> Tensor:
    """Return a copy with one position of the last dimension set to zero."""
    changed = tensor.clone()
    changed[..., position] = 0.0
    return changed


def _bias_of_group(c: Gather) -> Gather:
    if c.bias is None:
        return c
    return replace(c, bias=_first_group(c.bias, c.sizes.groups, 0))


def _testing_output_position(c: Gather) -> Gather:
    """Return a computation that tests t % stride, not (t + padding - k * dilation) % stride."""
    t = torch.arange(c.sizes.output_length).unsqueeze(1)

    def divide(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        position, _ = rounding_down(numerator, stride)
        return position, (t % stride == 0) & (numerator >= 0)

    return replace(c, divide=divide)


def _channels_last(y: Tensor) -> Tensor:
    """Return the output as written in layout (batch, output length, out_channels)."""
    return y.transpose(1, 2).reshape(y.shape)


def _position_of_a_convolution(c: Gather) -> Gather:
    return replace(
        c, numerator=lambda c, t, k: t * c.stride - c.padding + k * c.dilation, divide=undivided
    )


def _only_indivisible(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Divide with the test inverted: use only taps whose numerator the stride does not divide."""
    position, has_input = rounding_down(numerator, stride)
    return position, has_input & (numerator % stride != 0)


def _place_in_group(c: Gather) -> Tensor:
    """Return the index of each input channel within its group; (in_channels,)."""
    return torch.arange(c.sizes.in_channels) % (c.sizes.in_channels // c.sizes.groups)


def _channels_where(c: Gather, is_kept: Tensor) -> Gather:
    return replace(c, weight=c.weight * is_kept[:, None, None])


def _last_channel_left_out(c: Gather) -> Gather:
    return _channels_where(c, _place_in_group(c) != c.sizes.in_channels // c.sizes.groups - 1)


def _first_channel_left_out(c: Gather) -> Gather:
    return _channels_where(c, _place_in_group(c) != 0)


def _of_first_channel(channels: Tensor, groups: int, dim: int) -> Tensor:
    """Return a tensor in which all channels of a group equal the group's first channel."""
    firsts = [of_group.narrow(dim, 0, 1) for of_group in channels.chunk(groups, dim)]
    count = channels.shape[dim] // groups
    return torch.cat(firsts, dim).repeat_interleave(count, dim)


def _until(c: Gather, is_end: Callable[[Tensor, Tensor], Tensor]) -> Gather:
    """Return a computation in which a condition ends the loop over the taps of an output.

    Args:
        c: The computation to change.
        is_end: The condition, for numerators and positions (output length, kernel_size). The loop
            ends at the first tap for which it holds.
    """

    def divide(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        position, has_input = c.divide(numerator, stride)
        return position, has_input & (is_end(numerator, position).cumsum(-1) == 0)

    return replace(c, divide=divide)


def _remainder(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Use the remainder, not the quotient, as the position, so only input position 0 is used."""
    return numerator % stride, (numerator >= 0) & (numerator % stride == 0)


def _quotient_tested(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Test whether the quotient, not the remainder, is 0, so that only input position 0 is used."""
    return numerator // stride, (numerator >= 0) & (numerator // stride == 0)


def _one_tested(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Test whether the remainder is 1, not 0; for a stride of 1 it never is 1."""
    return numerator // stride, (numerator >= 0) & (numerator % stride == 1)


def _multiplied(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Multiply the numerator by the stride, after the correct divisibility test."""
    return numerator * stride, (numerator >= 0) & (numerator % stride == 0)


def _every_other_tap(c: Gather) -> Gather:
    return replace(c, weight=c.weight * (torch.arange(c.sizes.kernel_size) % 2 == 0))


def _last_term_only(c: Gather) -> Gather:
    """Return a computation with one term for each output.

    This term is the product of the last channel at the last tap that has an input.
    """

    def divide(numerator: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        position, divides = c.divide(numerator, stride)
        has_input = divides & (position >= 0) & (position < c.sizes.length)
        later = has_input.flip(-1).cumsum(-1).flip(-1)
        return position, has_input & (later == 1)

    last = _place_in_group(c) == c.sizes.in_channels // c.sizes.groups - 1
    return replace(_channels_where(c, last), divide=divide)


def _bias_overwritten(c: Gather) -> Gather:
    """Return a computation in which an output's last term replaces its sum and its bias.

    An output without terms keeps its bias.
    """
    if c.bias is None:
        return _last_term_only(c)
    bias = (c.bias.abs() if c.is_absolute else c.bias).unsqueeze(1)
    ones = replace(c, x=torch.ones_like(c.x), weight=torch.ones_like(c.weight), bias=None)
    has_none = ones.output() == 0
    return replace(_last_term_only(c), bias=None, finish=lambda y: y + bias * has_none)


def _first_half(count: int, places: Tensor) -> Tensor:
    """Return a mask that is True for each of `places` in the first half of `count` places.

    A loop that steps by two, but whose pointers step by one, reads only the first half.
    """
    return places < (count + 1) // 2


def _second_half_of_channels_left_out(c: Gather) -> Gather:
    channels = c.sizes.in_channels // c.sizes.groups
    return _channels_where(c, _first_half(channels, _place_in_group(c)))


def _second_half_of_taps_left_out(c: Gather) -> Gather:
    taps = torch.arange(c.sizes.kernel_size)
    return replace(c, weight=c.weight * _first_half(c.sizes.kernel_size, taps))


# Numbers of input channels that kernels process at a time: k of a matrix instruction, or multiples.
_BLOCKS = (2, 4, 8, 16, 32)


def _blocks() -> Iterator[Mistake[Gather]]:
    """Yield mistakes that leave out every other block of input channels.

    A kernel with two buffers makes these mistakes if the buffers do not alternate correctly.
    """
    for size in _BLOCKS:
        for place, words in enumerate(("first", "second")):
            yield Mistake(
                f"the {words} of each two blocks of {size} input channels left out",
                f"In each group, the {words} {size} of every {2 * size} input channels "
                "are not summed; look at code that alternates, such as two buffers or an "
                "unrolled loop.",
                partial(_without_blocks, size=size, place=place),
                comes_alone=True,
            )


def _without_blocks(c: Gather, size: int, place: int) -> Gather:
    return _channels_where(c, _place_in_group(c) // size % 2 != place)


def _bias_of_first_channel(c: Gather) -> Gather:
    if c.bias is None:
        return c
    return replace(c, bias=_of_first_channel(c.bias, c.sizes.groups, 0))


def _read_at(tensor: Tensor, dim: int, factor: int) -> Tensor:
    """Return what a kernel reads if it multiplies one index by a wrong factor; NaN past the end.

    Args:
        tensor: The contents of the memory, contiguous; (..., length).
        dim: The dimension whose index is multiplied by the wrong factor.
        factor: The wrong factor: each step of the index moves by this many elements.
    """
    size = tensor.shape[dim]
    places = torch.arange(tensor.numel()).view(tensor.shape)
    step = places.select(dim, 1) - places.select(dim, 0) if size > 1 else places.select(dim, 0)
    steps = torch.arange(size).view(-1, *[1] * (tensor.dim() - dim - 1))
    places = places + steps * (factor - int(step.flatten()[0]))
    inside = (places >= 0) & (places < tensor.numel())
    read: Tensor = tensor.flatten()[places.clamp(0, tensor.numel() - 1)]
    return read.where(inside, torch.nan)


def _weight_by(c: Gather, dim: int, factor: int) -> Gather:
    """Return a computation that indexes each group's weights with a wrong factor for `dim`.

    The weights of each group have the shape (channels, outputs, taps).
    """
    groups = c.weight.contiguous().chunk(c.sizes.groups, 0)
    return replace(c, weight=torch.cat([_read_at(group, dim, factor) for group in groups]))


def _input_by(c: Gather, dim: int, factor: int) -> Gather:
    return replace(c, x=_read_at(c.x.contiguous(), dim, factor))


Factor = Callable[[Convolution], int]


def _factors(
    what: str, right: str, ways: Sequence[tuple[str, Factor]], change: Callable[..., Gather]
) -> Iterator[Mistake[Gather]]:
    """Yield mistakes that multiply an index by a wrong factor.

    Args:
        what: The index and its tensor, in words.
        right: The right factor, in words.
        ways: Wrong factors: in words, and as functions of the sizes.
        change: Function that makes the mistake in a computation; it takes the wrong factor as
            keyword `factor`.
    """
    for words, factor in ways:
        yield Mistake(
            f"{what}: {words}",
            f"In this index the {what} is multiplied by {words}; the right factor is {right}.",
            partial(_by_factor, change=change, factor=factor),
            comes_alone=True,
        )


def _by_factor(c: Gather, change: Callable[..., Gather], factor: Factor) -> Gather:
    return change(c, factor=factor(c.sizes))


def _outputs(c: Convolution) -> int:
    return c.out_channels // c.groups


def _indices() -> Iterator[Mistake[Gather]]:
    """Yield mistakes in the factors of indices: a wrong or missing size, or + or / instead of *."""
    yield from _factors(
        "input channel in the weight's index",
        "(out_channels / groups) * kernel_size",
        (
            ("out_channels / groups alone", _outputs),
            ("kernel_size alone", lambda c: c.kernel_size),
            ("out_channels / groups / kernel_size", lambda c: _outputs(c) // c.kernel_size),
            ("out_channels / groups + kernel_size", lambda c: _outputs(c) + c.kernel_size),
            ("out_channels * kernel_size", lambda c: c.out_channels * c.kernel_size),
            ("1", lambda _: 1),
        ),
        partial(_weight_by, dim=0),
    )
    yield from _factors(
        "output channel in the weight's index",
        "kernel_size",
        (
            ("1", lambda _: 1),
            ("out_channels / groups", _outputs),
            ("in_channels / groups", lambda c: c.in_channels // c.groups),
        ),
        partial(_weight_by, dim=1),
    )
    yield from _factors(
        "channel in the input's index",
        "length",
        (("1", lambda _: 1), ("in_channels", lambda c: c.in_channels)),
        partial(_input_by, dim=1),
    )
    yield from _factors(
        "row of the batch in the input's index",
        "in_channels * length",
        (
            ("length alone", lambda c: c.length),
            ("in_channels alone", lambda c: c.in_channels),
            ("in_channels + length", lambda c: c.in_channels + c.length),
            ("in_channels / length", lambda c: c.in_channels // c.length),
            ("1", lambda _: 1),
        ),
        partial(_input_by, dim=0),
    )


def _lengths() -> Iterator[Mistake[Gather]]:
    """Yield mistakes that use another number as the input's length.

    The length decides where the rows of the input begin and end in memory.
    """
    for words, length in (
        ("kernel_size", lambda c: c.kernel_size),
        ("the batch", lambda c: c.batch),
        ("in_channels", lambda c: c.in_channels),
        ("out_channels", lambda c: c.out_channels),
        ("the output's length", lambda c: c.output_length),
    ):
        yield Mistake(
            f"{words} used as the input's length",
            f"The kernel uses {words} as the length of the input's rows; look for swapped "
            "or mistyped arguments.",
            partial(_with_rows_of, length=length),
            comes_alone=True,
        )


def _with_rows_of(c: Gather, length: Factor) -> Gather:
    """Return a computation that reads the input in rows of another length; NaN past the end."""
    rows = torch.arange(c.sizes.batch * c.sizes.in_channels).view(*c.x.shape[:2], 1)
    places = rows * length(c.sizes) + torch.arange(length(c.sizes))
    size = c.x.numel()
    read = c.x.flatten()[places.clamp(max=size - 1)].where(places < size, torch.nan)
    return replace(c, x=read)


def _substitutions() -> Iterator[Mistake[Gather]]:
    """Yield mistakes that use one parameter in place of another, as with swapped arguments."""
    # The substitutions that are left out here are known mistakes of other names.
    for target, sources in (
        ("stride", ("padding", "output_padding", "dilation", "groups", "kernel_size")),
        ("padding", ("stride", "dilation", "groups", "kernel_size")),
        ("dilation", ("stride", "padding", "output_padding", "kernel_size")),
    ):
        for source in sources:
            yield Mistake(
                f"{source} used as {target}",
                f"The input position is computed with {source} where {target} belongs; look for "
                f"swapped or mistyped arguments.",
                partial(_substituted, target=target, source=source),
                comes_alone=True,
            )


def _substituted(c: Gather, target: str, source: str) -> Gather:
    return replace(c, **{target: getattr(c.sizes, source)})


def _stride_and_taps_swapped(c: Gather) -> Gather:
    """Return a computation with stride and kernel_size swapped, also in the weight's index.

    Weights past the end of memory are NaN.
    """
    taps = c.sizes.stride
    size = c.weight.shape[0] * c.weight.shape[1] * taps
    read = torch.full((size,), torch.nan, dtype=c.weight.dtype)
    there = c.weight.flatten()[: len(read)]
    read[: len(there)] = there
    return replace(c, weight=read.view(*c.weight.shape[:2], taps), stride=c.sizes.kernel_size)


def _stride_and_taps_swapped_in_rows(c: Gather) -> Gather:
    """Return a computation with stride and kernel_size swapped, except in the weight's index.

    A tap past the end of a row of weights reads the next row. A tap past the end of memory reads
    NaN.
    """
    taps = torch.arange(c.sizes.stride)
    rows = torch.arange(c.weight.shape[0] * c.weight.shape[1]).view(*c.weight.shape[:2], 1)
    places = rows * c.sizes.kernel_size + taps
    size = c.weight.numel()
    read = c.weight.flatten()[places.clamp(max=size - 1)].where(places < size, torch.nan)
    return replace(c, weight=read, stride=c.sizes.kernel_size)


def _weight_channel_divided(c: Gather) -> Gather:
    """Return a computation that divides the weight's channel index by outputs * taps.

    A correct kernel multiplies the index by this number.
    """
    outputs, taps = c.weight.shape[1:]

    def read(group: Tensor) -> Tensor:
        channel = torch.arange(group.shape[0]).view(-1, 1, 1)
        places = torch.arange(outputs * taps).view(1, outputs, taps)
        return group.flatten()[channel // (outputs * taps) + places]

    return replace(c, weight=torch.cat([read(each) for each in c.weight.chunk(c.sizes.groups)]))


MISTAKES: tuple[Mistake[Gather], ...] = (
    # This comes first: many other mistakes fit where no product is left.
    Mistake(
        "bias alone",
        "No product is summed: every output is its bias, or 0 without one.",
        lambda c: replace(c, weight=torch.zeros_like(c.weight)),
        comes_alone=True,
    ),
    Mistake(
        "no divisibility test",
        "The kernel divides t + padding - k * dilation by the stride without testing for "
        "a remainder; skip the tap where (t + padding - k * dilation) % stride is not 0.",
        lambda c: replace(c, divide=rounding_down),
    ),
    Mistake(
        "no divisibility test, nor one for negative positions",
        "The kernel divides t + padding - k * dilation by the stride without testing for "
        "a remainder. C++ also rounds -1 / 2 to 0; test for < 0 and for the remainder "
        "before dividing.",
        lambda c: replace(c, divide=truncating),
    ),
    Mistake(
        "divisibility tested on the output position",
        "The kernel tests t % stride; test (t + padding - k * dilation) % stride.",
        _testing_output_position,
    ),
    Mistake(
        "stride ignored",
        "The input position is not divided by the stride.",
        lambda c: replace(c, stride=1),
    ),
    Mistake(
        "padding ignored",
        "The input position leaves out the padding; it is (t + padding - k * dilation) / stride.",
        lambda c: replace(c, padding=0),
    ),
    Mistake(
        "padding applied twice",
        "The padding is applied twice; look for a second place that shifts by it.",
        lambda c: replace(c, padding=2 * c.padding),
    ),
    Mistake(
        "padding with the wrong sign",
        "The padding is subtracted from the output position where it must be added.",
        lambda c: replace(c, padding=-c.padding),
    ),
    Mistake(
        "output shifted right by one",
        "The position is one too small; it is t + padding - k * dilation, with t from 0.",
        lambda c: replace(c, padding=c.padding - 1),
    ),
    Mistake(
        "output shifted left by one",
        "The position is one too large; it is t + padding - k * dilation, with t from 0.",
        lambda c: replace(c, padding=c.padding + 1),
    ),
    Mistake(
        "output_padding used as padding",
        "The input position is computed with output_padding where padding belongs; "
        "output_padding only lengthens the output. Look for swapped arguments.",
        lambda c: replace(c, padding=c.sizes.output_padding),
    ),
    Mistake(
        "output_padding added to padding",
        "output_padding shifts the input position; it only lengthens the output.",
        lambda c: replace(c, padding=c.padding + c.sizes.output_padding),
    ),
    Mistake(
        "stride multiplied instead of divided",
        "The input position is (t + padding - k * dilation) * stride; divide by the stride, and "
        "skip the tap where it does not divide.",
        lambda c: replace(c, divide=multiplying),
    ),
    Mistake(
        "position of a convolution that is not transposed",
        "The input position is t * stride - padding + k * dilation; it is "
        "(t + padding - k * dilation) / stride, where the stride divides.",
        _position_of_a_convolution,
    ),
    Mistake(
        "taps counted in the wrong direction",
        "The input position is computed with + k * dilation; it is t + padding - k * dilation.",
        lambda c: replace(c, numerator=lambda c, t, k: t + c.padding + k * c.dilation),
    ),
    Mistake(
        "position negated except for the padding",
        "The input position is (k * dilation - t + padding) / stride; it is "
        "(t + padding - k * dilation) / stride. Look for swapped operands of a subtraction.",
        lambda c: replace(c, numerator=lambda c, t, k: k * c.dilation - t + c.padding),
        comes_alone=True,
    ),
    Mistake(
        "offset of a flipped kernel without flipping it",
        "The input position is t + (kernel_size - 1 - k) * dilation - padding; it is "
        "t + padding - k * dilation.",
        lambda c: replace(
            c,
            numerator=lambda c, t, k: t + (c.sizes.kernel_size - 1 - k) * c.dilation - c.padding,
        ),
    ),
    Mistake(
        "dilation ignored",
        "The taps are 1 apart instead of dilation apart; the input position needs k * dilation.",
        lambda c: replace(c, dilation=1),
    ),
    Mistake(
        "kernel flipped",
        "Tap k is used where tap kernel_size - 1 - k belongs.",
        lambda c: replace(c, weight=c.weight.flip(-1)),
    ),
    Mistake(
        "last tap left out",
        "The loop over the kernel ends one tap early.",
        lambda c: replace(c, weight=_without(c.weight, -1)),
    ),
    Mistake(
        "first tap left out",
        "The loop over the kernel starts one tap late.",
        lambda c: replace(c, weight=_without(c.weight, 0)),
    ),
    Mistake(
        "last input position left out",
        "The test for the end of the input is off by one; position length - 1 is valid.",
        lambda c: replace(c, x=_without(c.x, -1)),
    ),
    Mistake(
        "first input position left out",
        "The test for the start of the input is off by one; position 0 is valid.",
        lambda c: replace(c, x=_without(c.x, 0)),
    ),
    Mistake(
        "weight read as [out, in, k]",
        "The weight is indexed as [out, in, k]; nn.ConvTranspose1d keeps it as "
        "[in, out / groups, k].",
        lambda c: replace(c, weight=_read_weight_as_out_in(c)),
    ),
    Mistake(
        "weight read as [out, in, k], group offset missing",
        "The weight is indexed as [out, in, k], and every group reads the first group's; "
        "nn.ConvTranspose1d keeps it as [in, out / groups, k], the groups along the first index.",
        lambda c: replace(c, weight=_first_group(_read_weight_as_out_in(c), c.sizes.groups, 0)),
    ),
    Mistake(
        "group offset of the input channel missing",
        "Every group reads the first group's input channels; add group * (in_channels / groups) "
        "to the channel of the input.",
        lambda c: replace(c, x=_first_group(c.x, c.sizes.groups, 1)),
    ),
    Mistake(
        "group offset of the weight missing",
        "Every group reads the first group's weights; add group * (in_channels / groups) to the "
        "weight's first index.",
        lambda c: replace(c, weight=_first_group(c.weight, c.sizes.groups, 0)),
    ),
    Mistake(
        "group offset missing in input and weight",
        "Every group computes the first group's output; the input's and the weight's channel lack "
        "group * (in_channels / groups).",
        lambda c: replace(
            c,
            x=_first_group(c.x, c.sizes.groups, 1),
            weight=_first_group(c.weight, c.sizes.groups, 0),
        ),
    ),
    Mistake(
        "only the first input channel summed",
        "The sum over the input channels of a group has one term only.",
        lambda c: _channels_where(c, _place_in_group(c) == 0),
    ),
    Mistake(
        "last input channel left out",
        "The loop over a group's input channels ends one channel early.",
        _last_channel_left_out,
    ),
    Mistake(
        "first input channel left out",
        "The loop over a group's input channels starts one channel late.",
        _first_channel_left_out,
    ),
    Mistake(
        "every other input channel left out",
        "The loop over a group's input channels takes two steps at a time.",
        lambda c: _channels_where(c, _place_in_group(c) % 2 == 0),
    ),
    Mistake(
        "every other tap left out",
        "The loop over the kernel takes two steps at a time.",
        _every_other_tap,
    ),
    Mistake(
        "sum overwritten",
        "Each term replaces the sum, so that only the last one is left; look for = where += "
        "belongs.",
        _last_term_only,
    ),
    Mistake(
        "sum overwritten, and with it the bias",
        "Each term replaces the sum and the bias that it starts from, so that only the last term "
        "is left; look for = where += belongs.",
        _bias_overwritten,
    ),
    Mistake(
        "divisibility test inverted",
        "The kernel skips the taps that the stride divides and takes the others; skip the tap "
        "where (t + padding - k * dilation) % stride is not 0.",
        lambda c: replace(c, divide=_only_indivisible),
    ),
    Mistake(
        "loop over the taps ends where the stride does not divide",
        "The first tap that the stride does not divide ends the loop over the taps; look for break "
        "where continue belongs.",
        lambda c: _until(c, lambda numerator, _: numerator % c.stride != 0),
    ),
    Mistake(
        "loop over the taps ends behind the input",
        "The first tap after the end of the input ends the loop over the taps, though "
        "later taps read further left; look for break where continue belongs.",
        lambda c: _until(c, lambda _, position: position >= c.sizes.length),
    ),
    Mistake(
        "channel offset missing in the input",
        "Every input channel of a group reads the first one's values; the input's index needs "
        "channel * length.",
        lambda c: replace(c, x=_of_first_channel(c.x, c.sizes.groups, 1)),
        comes_alone=True,
    ),
    Mistake(
        "input channel's offset missing in the weight",
        "Every input channel of a group has the first one's weights; the weight's index needs "
        "channel * (out_channels / groups) * kernel_size.",
        lambda c: replace(c, weight=_of_first_channel(c.weight, c.sizes.groups, 0)),
        comes_alone=True,
    ),
    Mistake(
        "output channel's offset missing in the weight",
        "Every output channel of a group has the first one's weights; the weight's index needs "
        "channel * kernel_size.",
        lambda c: replace(c, weight=c.weight[:, :1].expand_as(c.weight)),
        comes_alone=True,
    ),
    Mistake(
        "tap missing in the weight's index",
        "Every tap has the first one's weight.",
        lambda c: replace(c, weight=c.weight[..., :1].expand_as(c.weight)),
        comes_alone=True,
    ),
    Mistake(
        "position missing in the input's index",
        "Every input position has the first one's value.",
        lambda c: replace(c, x=c.x[..., :1].expand_as(c.x)),
        comes_alone=True,
    ),
    Mistake(
        "remainder taken for the position",
        "The input position is the remainder of t + padding - k * dilation by the stride; it is "
        "the quotient. Look for % where / belongs.",
        lambda c: replace(c, divide=_remainder),
        comes_alone=True,
    ),
    Mistake(
        "quotient tested instead of the remainder",
        "The kernel skips the taps where (t + padding - k * dilation) / stride is not 0; it is the "
        "remainder that must be 0. Look for / where % belongs.",
        lambda c: replace(c, divide=_quotient_tested),
        comes_alone=True,
    ),
    Mistake(
        "remainder compared with 1",
        "The kernel skips the taps where (t + padding - k * dilation) % stride is not 1; it must "
        "be 0.",
        lambda c: replace(c, divide=_one_tested),
        comes_alone=True,
    ),
    Mistake(
        "stride multiplied behind the divisibility test",
        "Where the stride divides t + padding - k * dilation, the kernel multiplies by "
        "the stride; divide by it.",
        lambda c: replace(c, divide=_multiplied),
        comes_alone=True,
    ),
    Mistake(
        "dilation added",
        "The taps are 1 apart, and all of them are shifted by dilation; the input "
        "position needs k * dilation. Look for + where * belongs.",
        lambda c: replace(c, numerator=lambda c, t, k: t + c.padding - k - c.dilation),
        comes_alone=True,
    ),
    Mistake(
        "dilation divided",
        "The taps are k / dilation apart; the input position needs k * dilation.",
        lambda c: replace(c, numerator=lambda c, t, k: t + c.padding - k // c.dilation),
        comes_alone=True,
    ),
    Mistake(
        "only the first tap summed",
        "The loop over the kernel ends after its first tap.",
        lambda c: replace(c, weight=c.weight * (torch.arange(c.sizes.kernel_size) == 0)),
        comes_alone=True,
    ),
    Mistake(
        "products subtracted",
        "Each product is subtracted from the sum; look for -= where += belongs.",
        lambda c: replace(c, weight=-c.weight),
        comes_alone=True,
    ),
    Mistake(
        "bias subtracted",
        "The bias is subtracted; it is added.",
        lambda c: c if c.bias is None else replace(c, bias=-c.bias),
        comes_alone=True,
    ),
    Mistake(
        "sum starts at 1",
        "Every output is 1 too large; the sum has to start at 0, or at the bias.",
        lambda c: replace(c, finish=lambda y: y + 1.0),
        comes_alone=True,
    ),
    Mistake(
        "second half of the input channels left out",
        "The loop over a group's input channels ends half-way, or takes two steps at a time while "
        "its pointers take one.",
        _second_half_of_channels_left_out,
        comes_alone=True,
    ),
    Mistake(
        "second half of the taps left out",
        "The loop over the kernel ends half-way, or takes two steps at a time while its pointers "
        "take one.",
        _second_half_of_taps_left_out,
        comes_alone=True,
    ),
    Mistake(
        "bias of the group's first channel",
        "Every output channel of a group has the first one's bias; the bias's index needs the "
        "channel within the group.",
        _bias_of_first_channel,
        comes_alone=True,
    ),
    *_blocks(),
    *_indices(),
    *_lengths(),
    *_substitutions(),
    Mistake(
        "stride and dilation swapped",
        "The input position is (t + padding - k * stride) / dilation. Look for swapped arguments.",
        lambda c: replace(c, stride=c.dilation, dilation=c.stride),
    ),
    Mistake(
        "padding and dilation swapped",
        "The input position is (t + dilation - k * padding) / stride. Look for swapped arguments.",
        lambda c: replace(c, padding=c.dilation, dilation=c.padding),
    ),
    Mistake(
        "stride and padding swapped",
        "The input position is (t + stride - k * dilation) / padding. Look for swapped arguments.",
        lambda c: replace(c, stride=c.padding, padding=c.stride),
        comes_alone=True,
    ),
    Mistake(
        "stride and kernel_size swapped",
        "The loop over the taps runs stride times, and kernel_size divides the position. Look for "
        "swapped arguments.",
        _stride_and_taps_swapped,
        comes_alone=True,
    ),
    Mistake(
        "stride and kernel_size swapped, but not in the weight's index",
        "The loop over the taps runs stride times, past a row of weights into the next row, and "
        "kernel_size divides the position. Look for swapped arguments.",
        _stride_and_taps_swapped_in_rows,
        comes_alone=True,
    ),
    Mistake(
        "input channel divided in the weight's index",
        "The input channel is divided by (out_channels / groups) * kernel_size in the "
        "index; multiply by it.",
        _weight_channel_divided,
        comes_alone=True,
    ),
    Mistake(
        "batch offset missing",
        "Every row of the batch reads the first row's input; the batch index is missing.",
        lambda c: replace(c, x=c.x[:1].expand_as(c.x)),
    ),
    Mistake(
        "bias ignored",
        "The bias is not added.",
        lambda c: replace(c, bias=None),
    ),
    Mistake(
        "bias added twice",
        "The bias is added twice; look for one in the kernel and one in Python.",
        lambda c: c if c.bias is None else replace(c, bias=2.0 * c.bias),
    ),
    Mistake(
        "bias indexed within the group",
        "The bias is indexed by the channel within its group; use the output channel.",
        _bias_of_group,
    ),
    Mistake(
        "input read as [batch, length, channels]",
        "The input is indexed as if its channels came last.",
        lambda c: replace(c, x=c.x.reshape(c.x.shape[0], -1, c.x.shape[1]).mT),
    ),
    Mistake(
        "output written as [batch, length, channels]",
        "The output is indexed as if its channels came last.",
        lambda c: replace(c, finish=_channels_last),
    ),
)
"""The known mistakes. If several explain an output, the earlier is named first."""
