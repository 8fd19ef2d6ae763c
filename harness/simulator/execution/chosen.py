"""Choice of a few blocks of a launch that run in place of all.

Inputs with more elements than 32 bits can count are present only in a few parts. Only the blocks
that may work on those parts run. Where all blocks would take too long, blocks drawn at random run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.simulator.hardware.geometry import Geometry

_FEW = 1024
"""Launches of at most this many blocks run whole."""
_FEW_AT_RANDOM = 256
"""The same where blocks are drawn at random; of larger launches, so many blocks run."""


@dataclass(frozen=True)
class Near:
    """The parts of the data that the chosen blocks work on.

    Attributes:
        places: Relative positions of the parts in the whole, from 0 to 1. Any dimension of the grid
            may correspond to the large dimension.
        numbers: Indices of the parts. They matter where parts are dealt out in turn to the blocks
            along a dimension.
    """

    places: tuple[float, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class AtRandom:
    """The choice of blocks at random.

    Attributes:
        seed: Seed of the choice, which the submission does not know.
    """

    seed: int


def chosen_blocks(geometry: Geometry, near: Near | AtRandom) -> tuple[int, ...]:
    """Return the numbers of the blocks that run, or none if all blocks run.

    They may work on the parts, or are drawn at random beside the first and the last one.
    """
    if isinstance(near, AtRandom):
        return _drawn(geometry.blocks, near.seed) if geometry.blocks > _FEW_AT_RANDOM else ()
    if geometry.blocks <= _FEW:
        return ()
    along_x, along_y, along_z = (sorted(_beside(count, near)) for count in geometry.grid)
    return tuple(_numbers(geometry, along_x, along_y, along_z))


def _drawn(blocks: int, seed: int) -> tuple[int, ...]:
    chance = random.Random(seed)  # noqa: S311 - the seed is the secret
    between = chance.sample(range(1, blocks - 1), _FEW_AT_RANDOM - 2)
    return (0, *sorted(between), blocks - 1)


def _numbers(
    geometry: Geometry, along_x: Sequence[int], along_y: Sequence[int], along_z: Sequence[int]
) -> Iterator[int]:
    width, height, _ = geometry.grid
    for z in along_z:
        for y in along_y:
            for x in along_x:
                yield (z * height + y) * width + x


def _beside(count: int, near: Near) -> set[int]:
    # How a kernel divides its work is unknown. Two divisions are common: each block takes a
    # contiguous piece in order, or part n goes to block n modulo the number of blocks. The first
    # and last blocks are added because indices go wrong at the ends.
    in_order = {min(int(place * count), count - 1) for place in near.places}
    in_turns = {number % count for number in near.numbers}
    return in_order | in_turns | {0, count - 1}
