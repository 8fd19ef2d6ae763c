"""Transposed convolutions around the sizes that one submission is made for.

A fast path for the problem's own sizes, a tile, a block: the mistakes that only these show lie one
beside them, and nobody but the submission knows where that is. Its text states integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.source_numbers import MOST_BLOCKS

# Above this, simulating a case of a kernel without tensor cores takes a second.
_MAX_WORK = 4_000_000
# Of the problem's own channels and taps: enough positions for a few tiles.
_LENGTH = 33
# What kernels may ask of lengths: a multiple of the largest vector's elements.
_VECTOR = 4
_WARP = 32
_MOST_TAPS = 32
_MOST_CHANNELS = 256
# Of the numbers in a text, those that are stated most often.
_MOST_BLOCKS, _MOST_WIDTHS, _MOST_KERNELS = 3, 3, 1
# Tiles of a kernel that takes several, one after the other, on each multiprocessor; with the rest
# that is one more, of which one of the two has fewer.
_MOST_TILE = 128
_MANY_TILES = 6
# The same of a kernel for which tensor cores multiply: each of a few parts that take turns has
# enough of them for a barrier that counts wrongly to be two phases off.
_MOST_WIDE_TILE = 256
_MANY_TURNS = 9
_MOST_TURNS_WORK = 60_000_000

_VARIED = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")


def neighbours(own: Convolution, varied: Iterable[str]) -> Iterator[Convolution]:
    """Give the problem's own sizes with one of them one off, short enough to be simulated.

    Args:
        own: The problem's, at its native size.
        varied: Names of the parameters that may leave their neutral value.

    Yields:
        Valid convolutions; each exactly one step beside what a fast path may ask for.
    """
    allowed = set(varied)
    short = _short(own)
    yield from (replace(short, length=short.length + step) for step in range(_VECTOR))
    for name in _VARIED:
        if name in allowed:
            for step in (-1, 1):
                yield from _affordable(own, replace(own, **{name: getattr(own, name) + step}))
    if "output_padding" in allowed:
        yield from _affordable(own, replace(own, output_padding=own.output_padding + 1))
    if "bias" in allowed:
        yield from _affordable(own, replace(own, bias=not own.bias))


def _affordable(own: Convolution, one: Convolution) -> Iterator[Convolution]:
    if min(one.in_channels, one.out_channels, one.kernel_size, one.stride, one.dilation) < 1:
        return
    if one.padding < 0 or not one.is_valid:
        return
    short = _short(one, own)
    if short.is_valid and short.work <= _MAX_WORK:
        yield short


def _short(one: Convolution, own: Convolution | None = None) -> Convolution:
    """One row of a length whose remainders by a vector's width are those of the native lengths."""
    native = own or one
    candidates = [
        replace(one, batch=1, length=length) for length in range(_LENGTH, _LENGTH + _VECTOR**2)
    ]

    def misses(short: Convolution) -> tuple[bool, bool]:
        return (
            (short.output_length - native.output_length) % _VECTOR != 0,
            (short.length - native.length) % _VECTOR != 0,
        )

    return min(candidates, key=misses)


def around(
    numbers: Sequence[int], own: Convolution, varied: Iterable[str]
) -> Iterator[Convolution]:
    """Give sizes at, and one beside, the integers that a text states.

    Args:
        numbers: Those, the most frequent first.
        own: The problem's sizes: its taps, stride and dilation stay.
        varied: Names of the parameters that may leave their neutral value.

    Yields:
        Valid convolutions with few multiply-adds.
    """
    allowed = set(varied)
    blocks = [number for number in numbers if number % _WARP == 0][:_MOST_BLOCKS]
    for block in blocks:
        for outputs in (block - 1, 2 * block):
            yield Convolution(1, 1, 2, 1, outputs - 1)
        # One position behind a block: who leaves the padding out of a count ends before it.
        padded = Convolution(1, 1, 3, 1, block + 1, padding=1)
        yield padded if "padding" in allowed else Convolution(1, 1, 2, 1, block)
    widths = [number for number in numbers if number <= _MOST_CHANNELS][:_MOST_WIDTHS]
    for width in widths:
        if {"in_channels", "out_channels"} <= allowed:
            for inputs, outputs in ((width + 1, width), (width - 1, width + 1), (width, width - 1)):
                yield replace(
                    own, in_channels=inputs, out_channels=outputs, batch=1, length=9, groups=1
                )
    kernels = [number for number in numbers if number <= _MOST_TAPS][:_MOST_KERNELS]
    for taps in kernels:
        for kernel_size in (taps - 1, taps + 1):
            yield Convolution(3, 2, kernel_size, 1, 19, stride=own.stride)
    if MOST_BLOCKS in numbers:
        # A block for each row, or output channel, and some of them have a second one.
        yield Convolution(1, 1, 1, MOST_BLOCKS + 2, 1)
        if "out_channels" in allowed:
            yield Convolution(1, MOST_BLOCKS + 2, 1, 1, 1)


def many_tiles(numbers: Sequence[int], own: Convolution) -> Iterator[Convolution]:
    """Give the own sizes, long enough for several tiles on each of two multiprocessors."""
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_TILE), default=_WARP)
    length = _MANY_TILES * tile // own.stride + 1
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)


def many_turns(numbers: Sequence[int], own: Convolution) -> Iterator[Convolution]:
    """Give the own sizes, long enough for many tiles of one multiprocessor."""
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_WIDE_TILE), default=_WARP)
    wanted = _MANY_TURNS * tile
    by_position = replace(own, batch=1, length=wanted).work // wanted
    length = min(wanted, _MOST_TURNS_WORK // by_position)
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)
