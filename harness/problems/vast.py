"""Inputs that 32 bits do not count: they are never there, but for a few parts.

All the rest of such an input is zeros that nobody stores, and of a launch only those blocks run
that write where the parts are, or may do so. An index that has wrapped around reads or writes
elsewhere: outside of all memory, or what a part shows to be wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

VastArrangement = Literal["rows", "axis"]
"""Very many rows, or one row of very many positions."""
VAST: tuple[VastArrangement, ...] = get_args(VastArrangement)
"""All of them."""

_BITS = (31, 32)
# Even such memory has addresses, of which the simulated device has a quarter of a terabyte.
_MOST_NUMBERS = 1 << 34
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
        """Where the parts' middles are in the output, from 0 to 1."""
        length = self.output_shape[self.along]
        return tuple((start + self.output_part / 2) / length for start in self.output_starts)


def vast(arrangement: VastArrangement, shape: Shape, output: Shape, step: int) -> Vast:
    """Make an input vast, and the output with it.

    Args:
        arrangement: In which way.
        shape: Of any small input: rows, channels, positions. A vast one has as many channels, and
            as many positions or one part of them for each row of the values.
        output: What comes of it.
        step: How many positions an input's position makes in the output.
    """
    return _of_rows(shape, output) if arrangement == "rows" else _of_positions(shape, output, step)


def _of_rows(shape: Shape, output: Shape) -> Vast:
    """Both have more than 2^32 numbers, if that is not too many of one; parts are single rows."""
    widths = math.prod(shape[1:]), math.prod(output[1:])
    rows = min((1 << _BITS[-1]) // min(widths) + 3, _MOST_NUMBERS // max(widths))
    edges = {(1 << bits) // width for bits in _BITS for width in widths}
    beside = {edge + near for edge in edges for near in (-1, 0, 1)} | {0, 1, rows - 2, rows - 1}
    starts = tuple(sorted(row for row in beside if 0 <= row < rows))
    return Vast(0, (rows, *shape[1:]), (rows, *output[1:]), starts, 1, starts, 1)


def _of_positions(shape: Shape, output: Shape, step: int) -> Vast:
    """The output has more than 2^32; 32 bits leave a length of both that is possible."""
    part, given = shape[-1], output[-1]
    length = (1 << _BITS[-1]) // step + 2 * part
    middles = ((1 << bits) // step for bits in _BITS)
    starts = (0, *(middle - part // 2 for middle in middles), length - part)
    whole = (1, *shape[1:-1], length), (1, *output[1:-1], given + (length - part) * step)
    of_output = tuple(start * step for start in starts)
    return Vast(len(shape) - 1, *whole, starts, part, of_output, given)
