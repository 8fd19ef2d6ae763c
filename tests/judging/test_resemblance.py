"""Properties of wrong outputs that no known mistake explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.judging.diagnose import WrongRun, diagnose
from harness.judging.resemblance import where_wrong, where_wrong_along
from harness.problems.families.conv_transpose1d.computation import Gather
from harness.problems.families.conv_transpose1d.mistakes import MISTAKES
from harness.problems.families.conv_transpose1d.sizes import Convolution

SIZES = (
    Convolution(2, 70, 3, 3, 40),
    Convolution(3, 66, 4, 2, 33, stride=2),
    Convolution(1, 99, 5, 4, 71, dilation=2, bias=True),
)


def spoiled(where: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return masks of three outputs in which the elements that `where` selects are wrong."""
    masks = []
    for sizes in SIZES:
        mask = torch.zeros(sizes.batch, sizes.out_channels, sizes.output_length, dtype=torch.bool)
        where(mask).fill_(True)
        masks.append(mask)
    return masks


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (lambda y: y[..., 32:], "from position 32 on"),
        (lambda y: y[..., -1], "at the last position"),
        (lambda y: y[..., -3:], "in the last 3 positions"),
        (lambda y: y[..., 0], "at position 0"),
        (lambda y: y[..., :8], "up to position 7"),
        (lambda y: y[..., 1::4], "at positions with remainder 1 modulo 4"),
        (lambda y: y[..., len(y[0, 0]) // 32 * 32 :], "in the last, incomplete 32 positions"),
        (lambda y: y[:, 64:], "from output channel 64 on"),
        (lambda y: y[:, ::2], "at output channels with remainder 0 modulo 2"),
        (lambda y: y[1:], "from row 1 on"),
        (lambda y: y.view(-1)[1024:], "from element 1024 on"),
    ],
)
def test_part_that_is_wrong_in_every_output_is_told(
    where: Callable[[Tensor], Tensor], words: str
) -> None:
    """A part that is wrong in every output is described.

    The part may consist of positions, channels, rows or elements of the flat output. It may lie at
    either end, be an incomplete last tile, or repeat with a fixed step.
    """
    assert where_wrong(spoiled(where)) == words


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((40,), (33,), (99,)), "along dimension 0 from index 32 on"),
        (((40, 2), (33, 7), (99, 1)), "along dimension 0 from index 32 on"),
        (((40, 2, 3), (33, 7, 1), (99, 1, 2)), "along dimension 0 from index 32 on"),
    ],
)
def test_part_of_a_dimension_is_told(shapes: tuple[tuple[int, ...], ...], words: str) -> None:
    """A wrong part of an output of any reference is described by the number of the dimension."""
    masks = [torch.zeros(shape, dtype=torch.bool) for shape in shapes]
    for mask in masks:
        mask[32:] = True
    assert where_wrong_along(masks) == words


def test_nothing_is_told_of_outputs_that_are_wrong_anywhere() -> None:
    """Errors everywhere, or in different places of each output, are not described."""
    assert where_wrong(spoiled(lambda y: y)) == ""
    generator = torch.Generator().manual_seed(1)
    scattered = [torch.rand(mask.shape, generator=generator) < 0.1 for mask in spoiled(lambda y: y)]
    assert where_wrong(scattered) == ""


def runs(change: Callable[[Tensor], Tensor]) -> list[WrongRun]:
    """Return wrong runs of three convolutions, whose outputs `change` makes from the right ones."""
    found = []
    for number, sizes in enumerate(SIZES):
        generator = torch.Generator().manual_seed(number)
        x = torch.rand(sizes.batch, sizes.in_channels, sizes.length, generator=generator)
        taps = (sizes.in_channels, sizes.out_channels, sizes.kernel_size)
        bias = torch.rand(sizes.out_channels, generator=generator) if sizes.bias else None
        right = Gather.of(sizes, x, torch.rand(taps, generator=generator), bias)
        actual = change(right.output().clone(memory_format=torch.contiguous_format)).float()
        found.append(WrongRun(right, actual, torch.zeros_like(actual, dtype=torch.bool)))
    return found


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.125])
def test_one_factor_is_told(factor: float) -> None:
    """Outputs that are all the same multiple of the right ones are diagnosed as scaled."""
    found = diagnose(runs(lambda y: factor * y), MISTAKES)
    assert found is not None
    assert found.name == "output scaled"
    assert f"{factor:.4g} times" in found.advice


def test_number_that_is_added_to_each_channel_is_told() -> None:
    """A number added to each channel, as an unwanted bias would be, is diagnosed."""

    def change(y: Tensor) -> Tensor:
        return y + torch.linspace(-1, 1, y.shape[1], dtype=torch.float64).unsqueeze(1)

    found = diagnose(runs(change), MISTAKES[:2])
    assert found is not None
    assert found.name == "a number added to each output channel"


def test_edges_are_told_where_a_tap_lies_outside() -> None:
    """If all errors are where a tap lies outside the input, the diagnosis names that part."""
    edge = "where a tap lies outside of the input"
    found = runs(lambda y: y)
    for run in found:
        run.actual.add_(run.right.parts()[edge] * run.right.output().float(), alpha=0.5)
    diagnosis = diagnose(found, MISTAKES[:2])
    assert diagnosis is not None
    assert diagnosis.name == "wrong in one part"
    assert edge in diagnosis.advice


def test_part_is_told_where_no_mistake_fits() -> None:
    """The wrong part of three outputs is diagnosed if no mistake fits.

    Two outputs could have a part in common by chance.
    """

    def change(y: Tensor) -> Tensor:
        y[:, 64:] = y[:, 64:] * 1.5 + 0.3
        return y

    found = diagnose(runs(change), MISTAKES[:2])
    assert found is not None
    assert found.name == "wrong in one part"
    assert "from output channel 64 on" in found.advice
    assert diagnose(runs(change)[:2], MISTAKES[:2]) is None
