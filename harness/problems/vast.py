"""Inputs of very many rows or positions: they are never there, but for a few parts.

All the rest of such an input is zeros that nobody stores, and of a launch only those blocks run
that write where the parts are, or may do so. An index that has wrapped around reads or writes
elsewhere: outside of all memory, or what a part shows to be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

VastArrangement = Literal["axis", "long", "rows", "wide"]
"""One row of more positions than 32 bits count, or of as many as every kernel counts that counts
in 32 bits, and more than 65,535 blocks have threads; more numbers in rows than 32 bits count, and
of as many positions in so many channels."""
VAST: tuple[VastArrangement, ...] = get_args(VastArrangement)
"""All of them."""

_BITS = (31, 32)
# Beside these lies what 65,535 blocks of 256 threads do, and of 4096.
_LONG_BITS = (24, 28)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Vast:
    """A vast input, the output that is to come of it, and where the parts of both begin.

    Attributes:
        along: The dimension that is so long.
        input_shape: Of the whole.
        output_shape: Of the whole.
        starts: Where the input's parts begin along that dimension; each is one row of the values.
        part: How long each part is.
        output_starts: Where the output's parts begin.
        output_part: How long each of those is.
    """

    along: int
    input_shape: Shape
    output_shape: Shape
    starts: tuple[int, ...]
    part: int
    output_starts: tuple[int, ...]
    output_part: int

    @property
    def numbers_of_output(self) -> int:
        """How many the output's parts have together."""
        others = math.prod(self.output_shape) // self.output_shape[self.along]
        return len(self.output_starts) * self.output_part * others

    @property
    def lie_beyond(self) -> tuple[bool, ...]:
        """Of each of the output's parts whether 32 bits do not count its middle."""
        width = math.prod(self.output_shape[self.along + 1 :])
        middles = (start + self.output_part / 2 for start in self.output_starts)
        return tuple(middle * width >= 1 << _BITS[-1] for middle in middles)

    @property
    def places(self) -> tuple[float, ...]:
        """Where the parts' middles are, from 0 to 1: among positions, and in the whole output."""
        length = self.output_shape[self.along]
        along = [(start + self.output_part / 2) / length for start in self.output_starts]
        channels = math.prod(self.output_shape[1 : self.along])
        some = sorted({0, channels // 2, channels - 1}) if channels > 1 else []
        return (*along, *((channel + each) / channels for channel in some for each in along))


def vast(arrangement: VastArrangement, shape: Shape, output: Shape, step: int) -> Vast:
    """Make an input vast, and the output with it.

    Args:
        arrangement: In which way.
        shape: Of any small input: rows, channels, positions. A vast one has as many channels, and
            as many positions or one part of them for each row of the values.
        output: What comes of it.
        step: How many positions an input's position makes in the output.
    """
    if arrangement == "rows":
        return _of_rows(shape, output)
    return _of_positions(shape, output, step, _BITS if arrangement == "axis" else _LONG_BITS)


def _of_rows(shape: Shape, output: Shape) -> Vast:
    """Both have more than 2^32 numbers, or the larger has, a few of which 32 bits leave.

    A launch of so few blocks is simulated whole. Parts are single rows.
    """
    widths = math.prod(shape[1:]), math.prod(output[1:])
    are_alike = max(widths) < 2 * min(widths)
    rows = (1 << _BITS[-1]) // (min(widths) if are_alike else max(widths)) + 2
    edges = {(1 << bits) // width for bits in _BITS for width in widths}
    beside = {edge + near for edge in edges for near in (-1, 0, 1)} | {0, 1, rows - 2, rows - 1}
    starts = tuple(sorted(row for row in beside if 0 <= row < rows))
    return Vast(0, (rows, *shape[1:]), (rows, *output[1:]), starts, 1, starts, 1)


def _of_positions(shape: Shape, output: Shape, step: int, marks: Sequence[int]) -> Vast:
    """The output has more than so many bits count; the last leave a length that is possible."""
    part, given = shape[-1], output[-1]
    length = (1 << marks[-1]) // step + 2 * part
    middles = ((1 << bits) // step for bits in marks)
    starts = (0, *(middle - part // 2 for middle in middles), length - part)
    whole = (1, *shape[1:-1], length), (1, *output[1:-1], given + (length - part) * step)
    of_output = tuple(start * step for start in starts)
    return Vast(len(shape) - 1, *whole, starts, part, of_output, given)
