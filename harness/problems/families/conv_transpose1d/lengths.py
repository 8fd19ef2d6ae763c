"""Known mistakes in the output's shape: in the formula of its length, and in its channels."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.problems.families.conv_transpose1d.sizes import Convolution

# The sizes in the formula that a kernel may take for one another.
_REPLACED = ("stride", "padding", "output_padding", "dilation", "kernel_size")


def _replaced() -> Iterator[tuple[str, Callable[[Convolution], int]]]:
    """Yield descriptions and length formulas of mistakes that use one size in place of another."""
    for target in _REPLACED:
        for source in (*_REPLACED, "groups"):
            if source != target:
                words = f"{source} is used in place of {target}"
                yield words, partial(_with, target=target, source=source)


def _ones() -> Iterator[tuple[str, Callable[[Convolution], int]]]:
    """Yield descriptions and length formulas of mistakes that use 1 in place of a size."""
    for target in ("padding", "output_padding"):
        yield f"1 is used in place of {target}", partial(_with_one, target=target)


def _with_one(c: Convolution, target: str) -> int:
    one: dict[str, Any] = {target: 1}
    return replace(c, **one).output_length


def _swapped() -> Iterator[tuple[str, Callable[[Convolution], int]]]:
    """Yield descriptions and length formulas of mistakes that swap two sizes."""
    for one, other in itertools.combinations(_REPLACED, 2):
        yield f"{one} and {other} are swapped", partial(_with_swapped, one=one, other=other)


def _with_swapped(c: Convolution, one: str, other: str) -> int:
    swapped: dict[str, Any] = {one: getattr(c, other), other: getattr(c, one)}
    return replace(c, **swapped).output_length


def _with(c: Convolution, target: str, source: str) -> int:
    return replace(c, **{target: getattr(c, source)}).output_length


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
        "dilation * kernel_size is used in place of dilation * (kernel_size - 1) + 1",
        lambda c: c.output_length + c.dilation - 1,
    ),
    (
        "length * stride is used in place of (length - 1) * stride",
        lambda c: c.output_length + c.stride,
    ),
    ("stride is left out", lambda c: c.output_length - (c.length - 1) * (c.stride - 1)),
    ("the last + 1 is missing", lambda c: c.output_length - 1),
    ("the last 1 is subtracted, not added", lambda c: c.output_length - 2),
    ("the last + 1 is added twice", lambda c: c.output_length + 1),
    ("the last + 1 is added three times", lambda c: c.output_length + 2),
    ("padding is added, not subtracted", lambda c: c.output_length + 4 * c.padding),
    ("padding is subtracted three times, not twice", lambda c: c.output_length - c.padding),
    (
        "output_padding is subtracted, not added",
        lambda c: c.output_length - 2 * c.output_padding,
    ),
    ("output_padding is added twice", lambda c: c.output_length + c.output_padding),
    (
        "dilation * (kernel_size - 1) is subtracted, not added",
        lambda c: c.output_length - 2 * c.dilation * (c.kernel_size - 1),
    ),
    (
        "dilation * (kernel_size - 1) is left out",
        lambda c: c.output_length - c.dilation * (c.kernel_size - 1),
    ),
    (
        "(length + 1) * stride is used in place of (length - 1) * stride",
        lambda c: c.output_length + 2 * c.stride,
    ),
    (
        "(length - 2) * stride is used in place of (length - 1) * stride",
        lambda c: c.output_length - c.stride,
    ),
    (
        "dilation * (kernel_size - 2) is used in place of dilation * (kernel_size - 1)",
        lambda c: c.output_length - c.dilation,
    ),
    (
        "dilation * (kernel_size + 1) is used in place of dilation * (kernel_size - 1)",
        lambda c: c.output_length + 2 * c.dilation,
    ),
    (
        "channels is used in place of length",
        lambda c: c.output_length + (c.in_channels - c.length) * c.stride,
    ),
    (
        "the batch is used in place of length",
        lambda c: c.output_length + (c.batch - c.length) * c.stride,
    ),
    (
        "kernel_size is used in place of length",
        lambda c: c.output_length + (c.kernel_size - c.length) * c.stride,
    ),
    (
        "(length - 1) / stride is used in place of (length - 1) * stride",
        lambda c: c.output_length + (c.length - 1) // c.stride - (c.length - 1) * c.stride,
    ),
    (
        "dilation is one too large, perhaps because of another default",
        lambda c: replace(c, dilation=c.dilation + 1).output_length,
    ),
    (
        "stride is one too large, perhaps because of another default",
        lambda c: replace(c, stride=c.stride + 1).output_length,
    ),
    # These come before the replacements: a dilation that is 1 in every case would explain the same.
    *_ones(),
    *_replaced(),
    *_swapped(),
)
"""Each known mistake in the formula, and the output length that it gives.

If several fit, the earlier is named.
"""


CHANNEL_MISTAKES: Sequence[tuple[str, Callable[[Convolution], int]]] = (
    ("in_channels", lambda c: c.in_channels),
    ("out_channels / groups", lambda c: c.out_channels // c.groups),
    ("in_channels * groups", lambda c: c.in_channels * c.groups),
    ("out_channels * groups", lambda c: c.out_channels * c.groups),
)
"""Numbers that a mistake uses as the number of output channels."""


def explain_shapes(wrong: Sequence[tuple[Convolution, tuple[int, ...]]]) -> str:
    """Return the known mistake that explains all given wrong output shapes.

    Args:
        wrong: The sizes of each case, and the wrong three-dimensional shape of its output.

    Returns:
        One sentence, empty if no known mistake explains all shapes.
    """
    if all(shape[:2] == (sizes.batch, sizes.out_channels) for sizes, shape in wrong):
        return explain_lengths([(sizes, shape[2]) for sizes, shape in wrong])
    for words, channels in CHANNEL_MISTAKES:
        if all(
            shape == (sizes.batch, channels(sizes), sizes.output_length) for sizes, shape in wrong
        ):
            return f"The output has {words} channels; it must have out_channels."
    swapped = [
        (c.batch, c.out_channels // c.groups * c.dilation, _with_swapped(c, "groups", "dilation"))
        for c, _ in wrong
    ]
    if [shape for _, shape in wrong] == swapped:
        return "In the output's shape, groups and dilation are swapped."
    return ""


def explain_lengths(wrong: Sequence[tuple[Convolution, int]]) -> str:
    """Return the mistake in the formula of the output length that explains all given lengths.

    Args:
        wrong: The sizes of each case, and the wrong length of its output.

    Returns:
        One sentence, empty if no known mistake explains all lengths.
    """
    for mistake, length in LENGTH_MISTAKES:
        if wrong and all(length(sizes) == actual for sizes, actual in wrong):
            return (
                f"In the output length, {mistake}; the length is (length - 1) * stride - "
                "2 * padding + dilation * (kernel_size - 1) + output_padding + 1."
            )
    return ""
