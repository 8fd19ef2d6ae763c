"""Transposed convolutions drawn at random, so that a submission cannot know all its cases."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.family import NEUTRAL

# Multiply-adds that simulate within seconds, as in `grid`.
_MAX_WORK = 1_500_000

# The largest value of each size. The least is 1, or 0 for those in `_FROM_ZERO`.
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
# The largest number of sizes that `near` changes at once.
_MOST_CHANGES = 3
_TRIES = 64


def any_convolution(varied: Iterable[str], chance: random.Random) -> Convolution:
    """Return random sizes that are valid and take at most 1.5 million multiply-adds.

    Args:
        varied: Names of the parameters that may have an effect. Other sizes keep a fixed, small
            value.
        chance: Random generator.
    """
    allowed = set(varied)
    # Invalid sizes are drawn again, since the rules of PyTorch relate several sizes.
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
    """Draw a value of at most `most` for the size called `name`.

    Each order of magnitude is equally likely, so small sizes are frequent.
    """
    low = 0 if name in _FROM_ZERO else 1
    return low - 1 + round(math.exp(chance.random() * math.log(most - low + 1)))


def _grouped(sizes: Convolution, groups: int) -> Convolution:
    """Return the sizes with `groups` groups, and with channels rounded to multiples of `groups`."""
    inputs, outputs = (
        groups * max(1, channels // groups) for channels in (sizes.in_channels, sizes.out_channels)
    )
    return replace(sizes, groups=groups, in_channels=inputs, out_channels=outputs)


def near(
    base: Convolution, varied: Iterable[str], numbers: Sequence[int], chance: random.Random
) -> Convolution:
    """Return a convolution with at most three sizes changed at random.

    Args:
        base: The convolution to start from.
        varied: Names of the parameters that may change.
        numbers: Integers in a submission's text, such as its blocks, tiles and special widths.
        chance: Random generator.

    Returns:
        Valid sizes that take at most 1.5 million multiply-adds, or no more than `base` if `base`
        takes more. If no such sizes are found, `base` itself.
    """
    allowed = sorted({*varied} & {*_MOST, "bias", "groups"})
    most_work = max(_MAX_WORK, base.work)
    for _ in range(_TRIES):
        sizes = base
        for name in chance.sample(allowed, min(chance.randint(1, _MOST_CHANGES), len(allowed))):
            sizes = _changed(sizes, name, numbers, chance)
        if sizes.is_valid and sizes.work <= most_work:
            return sizes
    return base


def at_numbers(
    base: Convolution, varied: Iterable[str], numbers: Sequence[int], chance: random.Random
) -> Convolution:
    """Return a convolution with sizes among `numbers`, which a kernel compares with its parameters.

    In half of all draws, the length is such a number and all other sizes are 1, so that the number
    of inputs or outputs equals it too.

    Args:
        base: The convolution to start from.
        varied: Names of the parameters that may change.
        numbers: The integers; at least one.
        chance: Random generator.

    Returns:
        Valid sizes that take at most 1.5 million multiply-adds.
    """
    allowed = sorted({*varied} & {*_MOST} - {*_FROM_ZERO})
    if chance.random() < 1 / 2 and {"in_channels", "out_channels", "kernel_size"} <= {*varied}:
        return Convolution(1, 1, 1, 1, chance.choice(numbers))
    sizes = base
    for name in chance.sample(allowed, len(allowed)):
        size: dict[str, Any] = {name: chance.choice(numbers)}
        changed = _grouped(replace(sizes, **size), sizes.groups)
        if changed.is_valid and changed.work <= _MAX_WORK:
            sizes = changed
    return sizes


def _changed(
    sizes: Convolution, name: str, numbers: Sequence[int], chance: random.Random
) -> Convolution:
    """Return all sizes, with the one called `name` changed at random.

    The new value is often one of `numbers`, or one more or less than one of them.
    """
    if name == "bias":
        return replace(sizes, bias=not sizes.bias)
    if name == "groups":
        return _grouped(sizes, chance.randint(1, _MOST_GROUPS))
    value: int = getattr(sizes, name)
    ways = [_one(name, _MOST[name], chance), value - 1, value + 1, 2 * value]
    # A stated number is as likely as all others together, since a special width is one in many.
    ways += [chance.choice(numbers) + chance.choice((-1, 0, 0, 1)) for _ in ways if numbers]
    least = 0 if name in _FROM_ZERO else 1
    changed: dict[str, Any] = {name: max(least, chance.choice(ways))}
    return _grouped(replace(sizes, **changed), sizes.groups)


def simpler(sizes: Convolution, varied: Iterable[str]) -> Iterator[Convolution]:
    """Yield convolutions in which one size is smaller, or one parameter has no effect.

    Args:
        sizes: The sizes to start from.
        varied: Names of the parameters that may change.

    Yields:
        Valid sizes. Each size takes its least value first, then values that halve the distance to
        the original value.
    """
    allowed = set(varied)
    if sizes.bias and "bias" in allowed:
        yield replace(sizes, bias=False)
    if sizes.groups > 1 and "groups" in allowed:
        yield replace(sizes, groups=1)
    for name in reversed(tuple(_MOST)):
        least = 0 if name in _FROM_ZERO else 1
        value: int = getattr(sizes, name)
        step = value - least if name in allowed else 0
        while step > 0:
            smaller_value: dict[str, Any] = {name: value - step}
            smaller = replace(sizes, **smaller_value)
            if smaller.is_valid:
                yield smaller
            step //= 2
