"""Transposed convolutions with sizes near those that one submission is made for.

A submission may have a fast path for the sizes in the reference's file, a tile or a block. Some
mistakes show only at sizes that are larger or smaller by 1, which the other cases miss. The
integers in the submission's text hint at such sizes.
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
    """Yield convolutions with one size that differs by 1 from `own`, and with a short length.

    Args:
        own: The sizes in the reference's file.
        varied: Names of the parameters that may have an effect; all others keep a value without
            effect, such as a stride of 1.

    Yields:
        Valid convolutions, which a fast path for the sizes of `own` may compute wrongly.
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
    """Yield `one` with a short length, if it is valid and takes at most 4 million multiply-adds."""
    if min(one.in_channels, one.out_channels, one.kernel_size, one.stride, one.dilation) < 1:
        return
    if one.padding < 0 or not one.is_valid:
        return
    short = _short(one, own)
    if short.is_valid and short.work <= _MAX_WORK:
        yield short


def _short(one: Convolution, own: Convolution | None = None) -> Convolution:
    """Return the sizes of `one` with a batch of 1 and a short length.

    Input and output length have the same remainders modulo 4 as in `own`, since the widest vector
    has 4 elements. If that is not possible, only the output length has the same remainder.
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
    """Yield convolutions with sizes that equal integers in a submission's text, or differ by 1.

    Args:
        numbers: The integers in the text, the most frequent first.
        own: The sizes in the reference's file. Convolutions with other channels keep the kernel
            size, stride and dilation of `own`.
        varied: Names of the parameters that may have an effect; all others keep a value without
            effect, such as a stride of 1.

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
    """Yield `own` with a batch of 1 and a length of several tiles on each of 2 multiprocessors.

    `numbers` are integers in the submission's text. The largest multiple of 32 among them, up to
    128, is taken as the width of a tile.
    """
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_TILE), default=_WARP)
    length = _MANY_TILES * tile // own.stride + 1
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)


def many_turns(numbers: Sequence[int], own: Convolution) -> Iterator[Convolution]:
    """Yield `own` with a batch of 1 and a length of many tiles on one multiprocessor.

    `numbers` are integers in the submission's text. The largest multiple of 32 among them, up to
    256, is taken as the width of a tile.
    """
    tile = max((n for n in numbers if n % _WARP == 0 and n <= _MOST_WIDE_TILE), default=_WARP)
    wanted = _MANY_TURNS * tile
    by_position = replace(own, batch=1, length=wanted).work // wanted
    length = min(wanted, _MOST_TURNS_WORK // by_position)
    yield replace(own, batch=1, length=length + (own.length - length) % _VECTOR)
