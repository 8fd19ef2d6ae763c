"""Transposed convolutions around the sizes that one submission is made for.

A submission may have a fast path for the problem's own sizes, a tile or a block. Some mistakes only
show in sizes one beside these, which the other cases miss. The integers in the submission's text
say where such sizes may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.source_numbers import MOST_BLOCKS

# Above this many multiply-adds, simulating a kernel without tensor cores takes a second.
_MAX_WORK = 4_000_000
# Enough positions for a few tiles, with the problem's own channels and taps.
_LENGTH = 33
# Elements of the largest vector. Kernels may require lengths to be multiples of it.
_VECTOR = 4
_WARP = 32
_MOST_TAPS = 32
_MOST_CHANNELS = 256
# How many of the numbers in a text are used; the most frequent come first.
_MOST_BLOCKS, _MOST_WIDTHS, _MOST_KERNELS = 3, 3, 1
# Tiles of a persistent kernel, which processes several of them on each of two multiprocessors. The
# rest of the length is one tile more, so that one multiprocessor has fewer than the other.
_MOST_TILE = 128
_MANY_TILES = 6
# Tiles of a kernel with tensor cores. A few parts of it take turns, and each has enough tiles for a
# barrier that counts wrongly to be two phases off.
_MOST_WIDE_TILE = 256
_MANY_TURNS = 9
_MOST_TURNS_WORK = 60_000_000

_VARIED = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")


def neighbours(own: Convolution, varied: Iterable[str]) -> Iterator[Convolution]:
    """Yield the problem's own sizes with one of them off by one, short enough to be simulated.

    Args:
        own: The problem's sizes at their native values.
        varied: Names of the parameters that may leave their neutral value.

    Yields:
        Valid convolutions, each exactly one step beside what a fast path may ask for.
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
    """Yield a shortened convolution if it is valid and not too much work."""
    if min(one.in_channels, one.out_channels, one.kernel_size, one.stride, one.dilation) < 1:
        return
    if one.padding < 0 or not one.is_valid:
        return
    short = _short(one, own)
    if short.is_valid and short.work <= _MAX_WORK:
        yield short


def _short(one: Convolution, own: Convolution | None = None) -> Convolution:
    """Return sizes with one row, and a length that has the native remainders by a vector's width.

    Both input and output length keep their remainders if possible, or else the output's length
    does.
    """
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
    """Yield sizes at, and one beside, the integers in a submission's text.

    Args:
        numbers: Those integers, the most frequent first.
        own: The problem's sizes, of which taps, stride and dilation stay.
        varied: Names of the parameters that may leave their neutral value.

    Yields:
        Valid convolutions with few multiply-adds.
    """
    allowed = set(varied)
    blocks = [number for number in numbers if number % _WARP == 0][:_MOST_BLOCKS]
    for block in blocks:
        for outputs in (block - 1, 2 * block):
            yield Convolution(1, 1, 2, 1, outputs - 1)
        # One position more than a block: a kernel that leaves the padding out of a count misses it.
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
        # A kernel with a block for each row or output channel has to give some of them a second.
        yield Convolution(1, 1, 1, MOST_BLOCKS + 2, 1)
        if "out_channels" in allowed:
            yield Convolution(1, MOST_BLOCKS + 2, 1, 1, 1)


def many_tiles(numbers: Sequence[int], own: Convolution) -> Iterator[Convolution]:
    """Yield the problem's own sizes, with several tiles for each of two multiprocessors."""
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_TILE), default=_WARP)
    length = _MANY_TILES * tile // own.stride + 1
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)


def many_turns(numbers: Sequence[int], own: Convolution) -> Iterator[Convolution]:
    """Yield the problem's own sizes, with many tiles for one multiprocessor."""
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_WIDE_TILE), default=_WARP)
    wanted = _MANY_TURNS * tile
    by_position = replace(own, batch=1, length=wanted).work // wanted
    length = min(wanted, _MOST_TURNS_WORK // by_position)
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)
