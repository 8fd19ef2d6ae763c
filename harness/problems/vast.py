"""Inputs of very many rows or positions, of which only a few parts exist in memory.

The rest of such an input consists of zeros that are not stored. The simulator runs only the blocks
of a launch that write, or may write, to the positions of the parts. An index that wraps at 32 bits
reads or writes elsewhere: outside all memory, or in another part, where the error shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

VastArrangement = Literal["axis", "long", "rows", "wide"]
"""Names of the ways in which an input is vast.

- `axis`: one row of more positions than 32 bits can count.
- `long`: one row of 2^28 positions. 32 bits can count them, but they exceed the threads of 65,535
  blocks.
- `rows`: more elements in many rows than 32 bits can count.
- `wide`: as many positions as `long` in several channels, which together are more elements than 32
  bits can count.
"""
VAST: tuple[VastArrangement, ...] = get_args(VastArrangement)
"""All of them."""

_BITS = (31, 32)
# Near the numbers of elements that 65,535 blocks of 256 and of 4096 threads process.
_LONG_BITS = (24, 28)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Vast:
    """A very large input, its output, and the positions of the parts of both that exist in memory.

    Attributes:
        along: Index of the dimension that is very long.
        input_shape: Shape of the whole input.
        output_shape: Shape of the whole output.
        starts: Start of each part of the input along the very long dimension; each part holds one
            row of the drawn values.
        part: Length of each part of the input along the very long dimension.
        output_starts: Start of each part of the output along the very long dimension.
        output_part: Length of each part of the output along the very long dimension.
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
        """Number of elements of all parts of the output together."""
        others = math.prod(self.output_shape) // self.output_shape[self.along]
        return len(self.output_starts) * self.output_part * others

    @property
    def lie_beyond(self) -> tuple[bool, ...]:
        """Flags, one for each part of the output: True if its middle has index 2**32 or more."""
        width = math.prod(self.output_shape[self.along + 1 :])
        middles = (start + self.output_part / 2 for start in self.output_starts)
        return tuple(middle * width >= 1 << _BITS[-1] for middle in middles)

    @property
    def places(self) -> tuple[float, ...]:
        """Relative positions of the middles of the output's parts, from 0 to 1.

        Positions along the very long dimension come first. If there are several channels, positions
        in the whole output follow, for the parts in the first, the middle and the last channel.
        """
        length = self.output_shape[self.along]
        along = [(start + self.output_part / 2) / length for start in self.output_starts]
        channels = math.prod(self.output_shape[1 : self.along])
        some = sorted({0, channels // 2, channels - 1}) if channels > 1 else []
        return (*along, *((channel + each) / channels for channel in some for each in along))


def vast(arrangement: VastArrangement, shape: Shape, output: Shape, step: int) -> Vast:
    """Return the shapes and parts of a very large input and of its output.

    Args:
        arrangement: The way in which the input is large, as `VastArrangement` explains.
        shape: Shape of any small input: rows, channels, positions. The large input has as many
            channels, and each of its parts has as many positions.
        output: Shape of the output for the small input.
        step: Number of output positions for one input position.
    """
    if arrangement == "rows":
        return _of_rows(shape, output)
    return _of_positions(shape, output, step, _BITS if arrangement == "axis" else _LONG_BITS)


def _of_rows(shape: Shape, output: Shape) -> Vast:
    """Return the shapes and parts of an input of very many rows; its parts are single rows.

    If input and output are of similar size, both have more than 2**32 elements; otherwise only the
    larger one has. One of the two exceeds 2**32 elements by at most two rows. A kernel whose count
    of elements wraps at 32 bits therefore counts at most two rows. Its launch is so small that the
    simulator runs all blocks.
    """
    widths = math.prod(shape[1:]), math.prod(output[1:])
    are_alike = max(widths) < 2 * min(widths)
    rows = (1 << _BITS[-1]) // (min(widths) if are_alike else max(widths)) + 2
    edges = {(1 << bits) // width for bits in _BITS for width in widths}
    beside = {edge + near for edge in edges for near in (-1, 0, 1)} | {0, 1, rows - 2, rows - 1}
    starts = tuple(sorted(row for row in beside if 0 <= row < rows))
    return Vast(0, (rows, *shape[1:]), (rows, *output[1:]), starts, 1, starts, 1)


def _of_positions(shape: Shape, output: Shape, step: int, marks: Sequence[int]) -> Vast:
    """Return the shapes and parts of an input of very many positions.

    The parts lie at both ends, and where the output position is 2**mark, for each of `marks`. A
    length that wraps at `marks[-1]` bits is still positive, so a kernel with this mistake runs.
    """
    part, given = shape[-1], output[-1]
    length = (1 << marks[-1]) // step + 2 * part
    middles = ((1 << bits) // step for bits in marks)
    starts = (0, *(middle - part // 2 for middle in middles), length - part)
    whole = (1, *shape[1:-1], length), (1, *output[1:-1], given + (length - part) * step)
    of_output = tuple(start * step for start in starts)
    return Vast(len(shape) - 1, *whole, starts, part, of_output, given)
