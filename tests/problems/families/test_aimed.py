"""Tests of the sizes of transposed convolutions that are chosen for one submission.

These sizes are near the sizes in the reference's file, and near integers in the submission's text.
"""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from harness.problems.families.conv_transpose1d.aimed import (
    around,
    many_tiles,
    many_turns,
    neighbours,
)
from harness.problems.families.conv_transpose1d.drawn import any_convolution
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.family import NEUTRAL
from tests.problems.families.convolutions import accepted_by_torch

EVERYTHING = frozenset({"in_channels", "out_channels", "kernel_size", "batch", "length", *NEUTRAL})
OWN = (
    Convolution(128, 128, 3, 16, 65536),
    Convolution(32, 64, 5, 16, 131072, dilation=3),
    Convolution(32, 64, 3, 16, 131072, stride=2, padding=1, dilation=2),
)


@pytest.mark.parametrize("own", OWN)
def test_neighbours_are_one_step_beside_the_own_sizes(own: Convolution) -> None:
    """`neighbours` yields the sizes `own` with one parameter larger or smaller by 1.

    Sizes that torch does not accept are left out. Batch and length of each result are cut down.
    """
    found = list(neighbours(own, EVERYTHING))
    assert all(accepted_by_torch(each) for each in found)
    steps = {
        (name, int(value) - int(getattr(own, name)))
        for each in found
        for name, value in asdict(each).items()
        if name not in ("batch", "length") and value != getattr(own, name)
    }
    for name in ("in_channels", "out_channels", "kernel_size"):
        assert {(name, -1), (name, 1)} <= steps
    assert {("stride", 1), ("padding", 1), ("bias", 1)} <= steps
    assert {step for _, step in steps} <= {-1, 1}


@pytest.mark.parametrize("own", OWN)
def test_neighbours_could_take_a_fast_path_but_for_their_step(own: Convolution) -> None:
    """Most results of `neighbours` keep the remainder of the output length modulo 4.

    So if a submission takes a fast path for vectors of 4 numbers for the sizes `own`, it takes the
    same path for these results.
    """
    found = list(neighbours(own, EVERYTHING))[1:]
    alike = [each for each in found if (each.output_length - own.output_length) % 4 == 0]
    assert len(alike) >= len(found) - 4
    lengths = {each.output_length % 4 for each in found[:3]}
    assert len(lengths) > 1 or own.stride % 2 == 0


def test_neighbours_leave_alone_what_is_not_taken() -> None:
    """`neighbours` does not vary a parameter that the submission's constructor lacks."""
    varied = EVERYTHING - {"padding", "bias"}
    assert all(each.padding == 1 and not each.bias for each in neighbours(OWN[2], varied))


def test_sizes_lie_around_the_numbers() -> None:
    """`around` yields output lengths, channels and kernel sizes near the given numbers.

    The numbers are integers in a submission's text. The convolutions are valid and take at most
    4,000,000 multiply-adds.
    """
    found = list(around((256, 16), Convolution(32, 64, 3, 16, 1000), EVERYTHING))
    assert all(accepted_by_torch(each) for each in found)
    alone = {each.output_length for each in found if each.in_channels == each.out_channels == 1}
    assert alone == {255, 257, 512}
    channels = {(each.in_channels, each.out_channels) for each in found}
    assert {(257, 256), (255, 257), (17, 16), (15, 17)} <= channels
    assert {15, 17} <= {each.kernel_size for each in found}
    assert max(each.work for each in found) <= 4_000_000


def test_many_tiles_are_several_for_each_of_two_multiprocessors() -> None:
    """`many_tiles` yields a convolution whose output is longer than four tiles of 128.

    128 is the largest of the submission's numbers that can be a tile. Each of two multiprocessors
    then computes several tiles.
    """
    (found,) = many_tiles((64, 128, 3), OWN[0])
    assert found.output_length > 4 * 128
    assert found.work < 50_000_000


def test_many_turns_are_of_the_largest_tile_that_is_affordable() -> None:
    """`many_turns` yields a convolution whose input has one position more than nine tiles of 256.

    256 is the largest of the submission's numbers that can be a tile. With many channels, the input
    is shorter, so that the convolution takes less than 70,000,000 multiply-adds.
    """
    few, many = Convolution(32, 64, 3, 16, 1001, stride=2), Convolution(128, 128, 3, 64, 65536)
    (of_few,), (of_many,) = (many_turns((256, 64, 384, 3), own) for own in (few, many))
    assert of_few.length == 9 * 256 + 1
    assert 1000 < of_many.length < 9 * 256 - 1000
    assert (of_many.length - many.length) % 4 == 0
    assert of_many.work < 70_000_000


def test_any_convolution_is_valid_and_affordable() -> None:
    """Every randomly drawn convolution is valid and takes at most 1,500,000 multiply-adds.

    Only the parameters that are to be varied differ from their neutral values.
    """
    chance = random.Random(4)  # noqa: S311 - nothing is secret here
    drawn = [any_convolution(EVERYTHING, chance) for _ in range(300)]
    assert all(accepted_by_torch(each) for each in drawn)
    assert max(each.work for each in drawn) <= 1_500_000
    for name in EVERYTHING:
        assert len({getattr(each, name) for each in drawn}) > 1, name
    assert {each.stride for each in any_of({"in_channels", "length"}, chance)} == {1}


def any_of(varied: set[str], chance: random.Random) -> list[Convolution]:
    """Return 20 random convolutions in which only the parameters `varied` vary."""
    return [any_convolution(varied, chance) for _ in range(20)]


def test_who_states_the_most_blocks_of_a_grid_gets_more_rows() -> None:
    """A submission whose text has the number 65,535 gets cases with 65,537 rows or output channels.

    65,535 is the largest extent of a CUDA grid in y and z. A kernel with one block for each row
    must therefore loop over the rows beyond that number.
    """
    made = list(around((128, 65_535), OWN[0], EVERYTHING))
    assert Convolution(1, 1, 1, 65_537, 1) in made
    assert Convolution(1, 65_537, 1, 1, 1) in made
    assert all(each.batch < 4 for each in around((128, 2048), OWN[0], EVERYTHING))
