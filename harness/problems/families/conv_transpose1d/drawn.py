"""Transposed convolutions drawn at random, so that nobody knows all that a submission meets."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from harness.problems.families.any_reference import NEUTRAL
from harness.problems.families.conv_transpose1d.sizes import Convolution

_MAX_WORK = 1_500_000

# The largest value of each, from 1; of those that may be 0, from 0.
_MOST: Mapping[str, int] = {
    "stride": 7,
    "kernel_size": 19,
    "dilation": 5,
    "padding": 12,
    "output_padding": 6,
    "length": 150,
    "in_channels": 70,
    "out_channels": 70,
    "batch": 5,
}
_FROM_ZERO = ("padding", "output_padding")
_MOST_GROUPS = 6


def any_convolution(varied: Iterable[str], chance: random.Random) -> Convolution:
    """Draw sizes until they are valid, and not too much to simulate.

    Args:
        varied: Names of the parameters that may leave their neutral value; one of them that is no
            parameter of this submission is left at a small one.
        chance: Where they come from.
    """
    allowed = set(varied)
    while True:
        known = {name: _one(name, most, chance) for name, most in _MOST.items() if name in allowed}
        sizes = Convolution(**{**_SMALL, **known})
        if "bias" in allowed:
            sizes = replace(sizes, bias=chance.random() < 1 / 2)
        if "groups" in allowed and chance.random() < 1 / 2:
            sizes = _grouped(sizes, chance.randint(2, _MOST_GROUPS))
        if sizes.is_valid and sizes.work <= _MAX_WORK:
            return sizes


_SMALL: Mapping[str, Any] = {
    **NEUTRAL,
    "in_channels": 3,
    "out_channels": 3,
    "kernel_size": 3,
    "batch": 1,
    "length": 17,
}


def _one(name: str, most: int, chance: random.Random) -> int:
    """Small ones are more frequent: each order of magnitude is as likely as another."""
    low = 0 if name in _FROM_ZERO else 1
    return low - 1 + round(math.exp(chance.random() * math.log(most - low + 1)))


def _grouped(sizes: Convolution, groups: int) -> Convolution:
    """The nearest sizes that have so many groups."""
    inputs, outputs = (
        groups * max(1, channels // groups) for channels in (sizes.in_channels, sizes.out_channels)
    )
    return replace(sizes, groups=groups, in_channels=inputs, out_channels=outputs)
