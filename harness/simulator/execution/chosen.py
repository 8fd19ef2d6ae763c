"""Choice of a few thread blocks of a launch, so that not all blocks need to be simulated.

There are two reasons to run only a few blocks:

- An input is huge (see `problems/vast.py`), and only a few parts of it exist in memory. Only the
  blocks that may work on these parts then run (`Near`).
- The simulation of all blocks would take too long. Randomly drawn blocks then run (`AtRandom`).
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
    """The positions of the used parts of a huge tensor, which select the blocks to run.

    The kernel may spread the tensor over any dimension of the grid. The selection is therefore
    applied to each dimension of the grid.

    Attributes:
        places: Relative positions of the parts in the tensor, from 0 to 1. They select the right
            blocks if each block works on one contiguous piece of the tensor, in ascending order.
        numbers: Indices of the parts. They select the right blocks if part n belongs to
            block `n % blocks`, where `blocks` is the number of blocks.
    """

    places: tuple[float, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class AtRandom:
    """A request to run randomly drawn blocks instead of all blocks.

    Attributes:
        seed: Seed of the random draw; it is kept secret from the submission.
    """

    seed: int


def chosen_blocks(geometry: Geometry, near: Near | AtRandom) -> tuple[int, ...]:
    """Return the numbers of the blocks that run, ascending; empty if all blocks run.

    With `Near`, indices are chosen along each dimension of the grid: the first, the last, and those
    of the used parts. The blocks that run are all combinations of these indices. All blocks run if
    the launch has at most 1024 blocks.

    With `AtRandom`, the first block, the last block and 254 random blocks run. All blocks run if
    the launch has at most 256 blocks.
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
