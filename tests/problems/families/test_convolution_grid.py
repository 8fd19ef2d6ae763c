"""Tests of the sizes of transposed convolutions in the grid of cases."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from harness.problems.covering import complete, uncovered
from harness.problems.families.conv_transpose1d import grid
from harness.problems.families.conv_transpose1d.grid import (
    corners,
    covering,
    shared_memory_corners,
)
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.family import NEUTRAL
from tests.problems.families.convolutions import accepted_by_torch

EVERYTHING = frozenset({"in_channels", "out_channels", "kernel_size", "batch", "length", *NEUTRAL})
CORNERS = (*corners(EVERYTHING), *shared_memory_corners(EVERYTHING))


def test_is_valid_agrees_with_torch() -> None:
    """`Convolution.is_valid` is true exactly if torch accepts the sizes.

    torch must also give the predicted output length.
    """
    sizes = itertools.product((1, 2, 3), (1, 2), (0, 1, 3), (0, 1, 2), (1, 3), (1, 2), (1, 4))
    seen = set()
    for kernel, stride, padding, output_padding, dilation, groups, length in sizes:
        c = Convolution(2, 4, kernel, 1, length, stride, padding, output_padding, dilation, groups)
        assert c.is_valid == accepted_by_torch(c), c
        seen.add(c.is_valid)
    assert seen == {False, True}


@pytest.mark.parametrize("channels", [(3, 4), (4, 3)])
def test_groups_must_divide_both_channels(channels: tuple[int, int]) -> None:
    """A convolution whose groups divide only one of its two channel numbers is not valid."""
    c = Convolution(*channels, kernel_size=1, batch=1, length=4, groups=2)
    assert not c.is_valid
    assert not accepted_by_torch(c)


@pytest.mark.parametrize("strength", [2, 3])
@pytest.mark.parametrize("left_out", [set(), {"dilation"}, {"groups", "bias", "output_padding"}])
def test_covers_every_feasible_combination(strength: int, left_out: set[str]) -> None:
    """Every pair (strength 2) or triple (strength 3) of parameter values occurs in some case.

    Exceptions are combinations that occur in no valid convolution with few enough multiply-adds.
    """
    varied = EVERYTHING - left_out
    levels: dict[str, Any] = {n: v for n, v in grid._LEVELS.items() if n in varied}
    fixed = {n: v for n, v in NEUTRAL.items() if n not in varied}
    rows = [symbolic for c in covering(varied, strength) for symbolic in spellings(c, levels)]
    missing = uncovered(levels, rows, strength)
    possible = [m for m in missing if complete(levels, lambda k: allowed({**fixed, **k}), m)]
    assert possible == []


def spellings(c: Convolution, levels: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows of the grid's covering array that describe the same convolution.

    A row maps parameters to values. If the padding is `dilation * (kernel_size - 1)`, the row may
    have the value `full` instead of the number. If the groups equal the input channels, the row may
    have the value `each` instead of the number.
    """
    paddings: list[object] = [p for p in (c.padding,) if p in levels["padding"]]
    if c.padding == c.dilation * (c.kernel_size - 1):
        paddings.append("full")
    groups: list[object] = [g for g in (c.groups,) if g in levels.get("groups", ())]
    if c.groups == c.in_channels:
        groups.append("each")
    base = {name: getattr(c, name) for name in levels}
    pairs = itertools.product(paddings, groups or [1])
    return [
        {**base, **({"padding": p, "groups": g} if "groups" in levels else {"padding": p})}
        for p, g in pairs
    ]


def allowed(known: dict[str, Any]) -> bool:
    """Return whether the values `known` allow a valid convolution with few enough multiply-adds.

    If `known` has all parameters, the convolution itself is checked. Otherwise, the grid's rules
    for incomplete rows decide.
    """
    if len(known) < len(EVERYTHING):
        return grid._is_feasible(known)
    c = grid._resolve(known)
    return c.is_valid and c.work <= grid._MAX_WORK


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("kernel smaller than stride", lambda c: c.kernel_size < c.stride),
        (
            "padding of dilation * (kernel - 1)",
            lambda c: c.padding == c.dilation * (c.kernel_size - 1) > 0,
        ),
        ("dilated full padding", lambda c: c.padding == 2 * c.dilation > 2 == c.kernel_size - 1),
        ("length 1", lambda c: c.length == 1),
        ("output length 1", lambda c: c.output_length == 1),
        ("padding beyond the kernel", lambda c: c.padding > 2 + c.dilation * (c.kernel_size - 1)),
        ("depthwise", lambda c: c.groups == c.in_channels > 1),
        ("most output padding", lambda c: c.output_padding == c.stride - 1 == 7),
        ("more than one block", lambda c: c.output_length > 256),
        ("more output positions than 16 bits count", lambda c: c.output_length > 1 << 16),
        (
            "weights beyond static shared memory",
            lambda c: 48 << 10 < 4 * c.in_channels * c.kernel_size < 64 << 10,
        ),
        (
            "weights beyond all shared memory",
            lambda c: 4 * c.in_channels * c.kernel_size > 227 << 10,
        ),
    ],
)
def test_corners_are_always_in(what: str, holds: Any) -> None:
    """The corner cases include a convolution with the property `what`, such as output length 1.

    All corner cases are valid.
    """
    assert any(holds(c) for c in CORNERS), what
    assert all(c.is_valid for c in CORNERS)


def test_corners_need_only_what_is_varied() -> None:
    """`corners` leaves out a corner that needs a parameter which may not be varied."""
    some = list(corners({"kernel_size", "length", "stride"}))
    assert 0 < len(some) < len(list(corners(EVERYTHING)))
    assert all((c.padding, c.dilation, c.groups) == (0, 1, 1) for c in some)
