"""Tests of the known mistakes in kernels of transposed convolutions, and of their diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import conv_transpose1d

from harness.problems.families import named
from harness.problems.families.conv_transpose1d.computation import Gather
from harness.problems.families.conv_transpose1d.grid import corners, covering
from harness.problems.families.conv_transpose1d.lengths import (
    CHANNEL_MISTAKES,
    LENGTH_MISTAKES,
    explain_lengths,
    explain_shapes,
)
from harness.problems.families.conv_transpose1d.mistakes import MISTAKES
from harness.problems.families.conv_transpose1d.sizes import Convolution

SIZES = frozenset({"in_channels", "out_channels", "kernel_size", "batch", "length"})
EVERYTHING = SIZES | named("conv_transpose1d").neutral.keys()


def test_computes_what_torch_computes() -> None:
    """`Gather`, a model of a kernel, computes the same as torch's transposed convolution.

    Each known mistake is a change of this model.
    """
    generator = torch.Generator().manual_seed(0)
    for c in (*corners(EVERYTHING), *covering(EVERYTHING, 2)):
        x = torch.randn(c.batch, c.in_channels, c.length, generator=generator)
        taps = c.in_channels, c.out_channels // c.groups, c.kernel_size
        weight = torch.randn(taps, generator=generator)
        bias = torch.randn(c.out_channels, generator=generator) if c.bias else None
        o = Gather.of(c, x, weight, bias)
        y = conv_transpose1d(
            o.x, o.weight, o.bias, c.stride, c.padding, c.output_padding, c.groups, c.dilation
        )
        assert torch.allclose(o.output(), y, rtol=1e-12, atol=1e-12), c


def test_names_are_unique() -> None:
    """Each known mistake has a name and a sentence of advice that no other mistake has."""
    assert len({m.name for m in MISTAKES}) == len({m.advice for m in MISTAKES}) == len(MISTAKES)
    assert all(mistake.advice.endswith(".") for mistake in MISTAKES)


# The numbers of one convolution all differ, so no parameter can be mistaken for another.
LENGTH_SIZES = [
    Convolution(26, 4, 19, 1, 101, 5, 11, 3, 7, 2),
    Convolution(33, 9, 15, 1, 89, 8, 2, 5, 4, 3),
]


@pytest.mark.parametrize(("words", "length"), LENGTH_MISTAKES)
def test_each_wrong_length_is_diagnosed(words: str, length: Callable[[Convolution], int]) -> None:
    """Every known mistake in the output length's formula is recognised from two convolutions."""
    sentence = explain_lengths([(sizes, length(sizes)) for sizes in LENGTH_SIZES])
    assert sentence.startswith(f"In the output length, {words};")


def test_unknown_length_has_no_diagnosis() -> None:
    """An output length that no known mistake gives has an empty diagnosis."""
    assert explain_lengths([(sizes, 1000) for sizes in LENGTH_SIZES]) == ""
    assert explain_lengths([]) == ""


def test_what_never_varies_is_no_name() -> None:
    """If every dilation is 1, the diagnosis of a wrong length names the number 1, not dilation."""
    plain = [Convolution(1, 1, 3, 1, 9, padding=padding) for padding in range(4)]
    with_one = [(each, each.output_length + 2 * each.padding - 2) for each in plain]
    assert "1 is used in place of padding" in explain_lengths(with_one)
    dilated = Convolution(1, 1, 3, 1, 9, padding=3, dilation=2)
    by_dilation = (dilated, dilated.output_length + 2)
    assert "dilation is used in place of padding" in explain_lengths([*with_one, by_dilation])


@pytest.mark.parametrize(("words", "channels"), CHANNEL_MISTAKES)
def test_each_wrong_number_of_channels_is_diagnosed(
    words: str, channels: Callable[[Convolution], int]
) -> None:
    """A wrong number of output channels is diagnosed only if batch and output length are right."""
    shapes = [(sizes.batch, channels(sizes), sizes.output_length) for sizes in LENGTH_SIZES]
    assert f"has {words} channels" in explain_shapes([*zip(LENGTH_SIZES, shapes, strict=True)])
    longer = [(batch, channels, length + 1) for batch, channels, length in shapes]
    assert explain_shapes([*zip(LENGTH_SIZES, longer, strict=True)]) == ""


def test_swapped_groups_and_dilation_are_seen_in_length_and_channels_together() -> None:
    """Swapped groups and dilation are diagnosed from output length and output channels together.

    If the output length is right, the channels that the swap gives have no diagnosis.
    """
    shapes = [
        (
            c.batch,
            c.out_channels // c.groups * c.dilation,
            replace(c, dilation=c.groups).output_length,
        )
        for c in LENGTH_SIZES
    ]
    told = explain_shapes([*zip(LENGTH_SIZES, shapes, strict=True)])
    assert told == "In the output's shape, groups and dilation are swapped."
    usual = [
        (c.batch, shape[1], c.output_length) for c, shape in zip(LENGTH_SIZES, shapes, strict=True)
    ]
    assert explain_shapes([*zip(LENGTH_SIZES, usual, strict=True)]) == ""


def test_wrong_length_is_explained_from_the_shape() -> None:
    """A wrong output length in a shape is diagnosed if batch and channels are right."""
    shapes = [(sizes.batch, sizes.out_channels, sizes.output_length - 1) for sizes in LENGTH_SIZES]
    told = explain_shapes([*zip(LENGTH_SIZES, shapes, strict=True)])
    assert told.startswith("In the output length, the last + 1 is missing")
