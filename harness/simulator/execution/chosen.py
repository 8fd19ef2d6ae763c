"""Which blocks of a launch run where only a few are to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.simulator.hardware.geometry import Geometry

_FEW = 1024
"""Blocks of a launch that are not worth a choice."""


@dataclass(frozen=True)
class Near:
    """What the blocks that are to run work on.

    Attributes:
        places: Where that is in the whole, from 0 to 1: any of a grid's dimensions may stand for
            what is so large.
        numbers: Which of the parts of the whole that is, where they may be dealt out in turns to
            the blocks along a dimension.
    """

    places: tuple[float, ...]
    numbers: tuple[int, ...] = ()


def chosen_blocks(geometry: Geometry, near: Near) -> tuple[int, ...]:
    """Give the numbers of the blocks that may work there; none where all of them are to run."""
    if geometry.blocks <= _FEW:
        return ()
    along_x, along_y, along_z = (sorted(_beside(count, near)) for count in geometry.grid)
    return tuple(_numbers(geometry, along_x, along_y, along_z))


def _numbers(
    geometry: Geometry, along_x: Sequence[int], along_y: Sequence[int], along_z: Sequence[int]
) -> Iterator[int]:
    width, height, _ = geometry.grid
    for z in along_z:
        for y in along_y:
            for x in along_x:
                yield (z * height + y) * width + x


def _beside(count: int, near: Near) -> set[int]:
    in_order = {min(int(place * count), count - 1) for place in near.places}
    in_turns = {number % count for number in near.numbers}
    return in_order | in_turns | {0, count - 1}
