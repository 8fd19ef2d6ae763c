"""Choice of other values for a reference's integer constants, without knowing their meaning.

Mistakes hide at sizes that are not a multiple of a warp, a block or a vector. They hide in loops of
one iteration or none, and in indices of more than 16 bits. So every constant gets values around
those sizes. One constant gets such a value while the others vary, and the work of a call stays
small.

Constants may have to be equal, or one a multiple of another, which the file does not state. So for
each value, candidates for the other constants are tried until the reference accepts one. A covering
array (covering.py) would need a feasibility test for incomplete rows, which does not exist here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.problems.configuration import Configuration
from harness.problems.families.interfaces import Sizes

Constants = dict[str, int]

# A constant is taken for a size from here on. A smaller one, called a setting here, may be a kernel
# size, a stride, or the index of a dimension.
_LEAST_SIZE = 16
_SIZES = (1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025, 4099, 65537)
_SETTINGS = (1, 2, 3)
# Additional values for a setting that is an input's size, such as three channels. They exceed a
# tile of a warp and a tile of a block.
_BEYOND_TILES = (33, 129)
_MOST_WORK = 1 << 18
"""Limit of the work of a case (`Sizes.is_within`).

A case of a wide size may take more, since no smaller case has that size.
"""
_MOST_WORK_OF_WIDE = 1 << 22
_MOST_WORK_OF_OWN = 1 << 19
_WORK_OF_SETTING = 1 << 16
# Limit for references that exceed the others however small their sizes are, such as a convolution
# in three dimensions.
_MOST_WORK_OF_LARGE = 1 << 24
# Limits for slow kernels, such as one that sums all inputs again for each output. An eighth of the
# inputs and outputs is then a 64th of the work.
_LESS_WORK_OF_OWN = (1 << 16, 1 << 13, 1 << 10)
_TRIES = 4
# Names of constants that only repeat the same work.
_REPEATS = re.compile("batch|head", re.IGNORECASE)
_FEW = 4
_CUTS = tuple(size for power in range(16, 1, -1) for size in (1 << power, 3 << power - 2))
# Small sizes of the other constants beside a wide one. The widest gets only the second list.
_SMALL = (2, 3, 5, 1)
_FEW_OF_WIDEST = (2, 3)
_UNLIKE = (2, 3, 5)
# The largest value of the other constants beside a random size, for each try.
_MOST_OF_RANDOM = (256, 256, 64, 64, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1)
_LIKE_OWN = 0.25
_TILES = (1, 128)
# The tries with so small other sizes come last. A multiple of a tile was too much work by then.
_FEW_BESIDE_TILES = 16


def own_sizes(sizes: Sizes) -> Iterator[Configuration]:
    """Yield the reference's own configuration with smaller sizes, such that a call is quick.

    All sizes are cut to a common limit. A constant whose name contains `batch` or `head` is cut to
    4, because a larger value repeats the same work. Such a constant is not cut to 4 if the
    reference would then accept no sizes, because it may have to equal another size.

    Yields:
        The largest quick configuration, then smaller ones.
    """
    last = _largest_own_sizes(sizes)
    if last is None:
        return
    yield last
    for limit in _LESS_WORK_OF_OWN:
        smaller = _own_sizes_within(sizes, limit)
        if smaller is not None and smaller != last:
            yield smaller
            last = smaller


def _largest_own_sizes(sizes: Sizes) -> Configuration | None:
    found = _own_sizes_within(sizes, _MOST_WORK_OF_OWN)
    return found or _own_sizes_within(sizes, _MOST_WORK_OF_LARGE)


def _own_sizes_within(sizes: Sizes, most_work: int) -> Configuration | None:
    for constants in _cut(sizes.constants, _CUTS):
        if sizes.is_within(constants, most_work):
            configuration = sizes.configuration(constants)
            if configuration is not None:
                return configuration
    return None


def _cut(own: Mapping[str, int], cuts: Sequence[int]) -> Iterator[Constants]:
    # First all limits with few batches and heads; then all limits with as many as the file has,
    # which may have to equal another size.
    for few in (_FEW, max(own.values(), default=0)):
        for most in cuts:
            yield {
                name: min(value, most, few if _REPEATS.search(name) else most)
                for name, value in own.items()
            }


@dataclass(frozen=True)
class _Company:
    """Values for all constants of a configuration except the lead, a constant with a given value.

    Attributes:
        least: The smallest sizes that the reference accepts; None if even these are too much work.
        roomy: Larger sizes, used if the lead is a small constant such as a stride; may be empty.
    """

    least: Constants | None
    roomy: Mapping[str, int]


def other_sizes(sizes: Sizes, turns: int) -> Iterator[Configuration]:
    """Yield configurations in which every constant gets each of its test values in turn.

    Test values lie near the sizes of warps, thread blocks and vectors, or have more than 16 bits.
    Values that the reference does not accept are skipped. Configurations of small sizes alone
    follow.

    Args:
        sizes: The reference.
        turns: The number of configurations for each value, with different values of the other
            constants.
    """
    # A fixed seed: the cases are the same in every run.
    chance = random.Random("other sizes")  # noqa: S311 - no secret
    roomy = _own_sizes_within(sizes, _WORK_OF_SETTING)
    company = _Company(_least(sizes), roomy.constants if roomy else {})
    reduced = _largest_own_sizes(sizes)
    cut = reduced.constants if reduced else sizes.constants
    for _ in range(turns):
        missing = [
            (name, value)
            for name in sizes.constants
            for value in _values(sizes, name, is_cut=name in cut)
        ]
        # The largest values first: they leave the least work for other missing values beside them.
        missing.sort(key=lambda each: -each[1])
        while missing:
            lead = missing.pop(0)
            found = _around(sizes, lead, missing, company, chance)
            if found is not None:
                constants, configuration = found
                # Beside small sizes, a setting may have no effect. So its value counts as done only
                # if a setting leads the configuration, which then has larger sizes.
                settles = {n for n, own in sizes.constants.items() if _is_size(n, own)}
                if lead[0] not in settles:
                    settles |= constants.keys()
                missing = [
                    (name, value)
                    for name, value in missing
                    if name not in settles or constants[name] != value
                ]
                yield configuration
    yield from _all_small(sizes)


def random_sizes(sizes: Sizes, chance: random.Random) -> Configuration | None:
    """Return a random configuration: one size of up to 65537, and mostly smaller other sizes.

    Args:
        sizes: The reference.
        chance: A generator with a secret seed, so that the sizes cannot be foreseen.

    Returns:
        A quick configuration that the reference accepts, or None if a few tries found none.
    """
    own = sizes.constants
    settings = {name: value for name, value in own.items() if not _is_size(name, value)}
    wide = [name for name in own if name not in settings]
    if not wide:
        return None
    roomy = _own_sizes_within(sizes, _WORK_OF_SETTING)
    for most in _MOST_OF_RANDOM:
        lead = chance.choice(wide)
        # Sizes that are equal in the file may have to stay equal, and a size may have to be a
        # multiple of a setting.
        beside = {own[name]: _any_size(chance, most) for name in wide}
        multiple = chance.choice([1, *(value for value in settings.values() if value > 1)])
        # The test values are no multiples of a tile, so the random size is one as often.
        step = multiple * chance.choice(_TILES if most > _FEW_BESIDE_TILES else (1,))
        company = roomy.constants if roomy and chance.random() < _LIKE_OWN else {}
        constants = {
            **own,
            **{name: multiple * beside[own[name]] for name in wide},
            **company,
            lead: step * _any_size(chance, max(_SIZES) // step),
        }
        for each in (constants, constants | _alike(own, lead, constants[lead])):
            if sizes.is_within(each, _MOST_WORK) and (found := sizes.configuration(each)):
                return found
    return None


def _any_size(chance: random.Random, most: int) -> int:
    """Return a random size from 1 to `most`, log-uniform."""
    size: float = most ** chance.random()
    return round(size)


def _alike(own: Mapping[str, int], name: str, value: int) -> Constants:
    """Return `value` for each constant that equals the constant `name` in the reference's file."""
    return {each: value for each, size in own.items() if size == own[name]}


def _all_small(sizes: Sizes) -> Iterator[Configuration]:
    """Yield configurations in which all sizes are 2, 3 or 5.

    In a mean over so few numbers, a single wrong number has a visible effect.
    """
    own = sizes.constants
    unlike = sorted({value for name, value in own.items() if _is_size(name, value)})
    # Each turn gives different small sizes to sizes that differ in the file.
    for turn in range(len(_UNLIKE)):
        small = {size: _UNLIKE[(turn + i) % len(_UNLIKE)] for i, size in enumerate(unlike)}
        constants = {n: small[v] if _is_size(n, v) else v for n, v in own.items()}
        if sizes.is_within(constants, _MOST_WORK_OF_LARGE):
            configuration = sizes.configuration(constants)
            if configuration is not None:
                yield configuration


def _is_size(name: str, own: int) -> bool:
    """Return whether a constant with the value `own` in the reference's file is a size.

    A size is at least 16, or its name contains `batch` or `head`.
    """
    return own >= _LEAST_SIZE or _REPEATS.search(name) is not None


def _values(sizes: Sizes, name: str, *, is_cut: bool) -> tuple[int, ...]:
    """Return the test values of a constant.

    Args:
        sizes: The reference.
        name: The constant.
        is_cut: True if the configuration that is cut down for the simulator has another value than
            the file. Then the file's value is tested too, because a kernel may take a special path
            at just that size.
    """
    own = sizes.constants[name]
    if _is_size(name, own):
        is_another = is_cut and own not in _SIZES and own < max(_SIZES)
        return (*_SIZES, own) if is_another else _SIZES
    # A negative number is the index of a dimension from the end, so it stays. A 0 may be a padding,
    # so it is varied.
    if own < 0 or name in sizes.of_broadcasts:
        return ()
    larger = _BEYOND_TILES if name in sizes.of_inputs else ()
    return tuple(value for value in (*_SETTINGS, own + 1, *larger) if value != own)


def _least(sizes: Sizes) -> Constants | None:
    """Return the smallest constants that the reference accepts; None if all are too much work.

    All sizes are cut to a common limit, and then each size is cut further if possible. A common
    limit alone is not enough, because some sizes may have to be larger. For example, a window of 11
    does not fit into 5 rows.
    """
    for least in _cut(sizes.constants, _CUTS[::-1]):
        if sizes.is_within(least, _MOST_WORK_OF_WIDE) and sizes.configuration(least):
            break
    else:
        return None
    for name, own in sizes.constants.items():
        if _is_size(name, own):
            smaller = (least | {name: size} for size in _SMALL if size < least[name])
            works = (each for each in smaller if sizes.configuration(each) is not None)
            least = next(works, least)
    return least


def _around(
    sizes: Sizes,
    lead: tuple[str, int],
    missing: Sequence[tuple[str, int]],
    company: _Company,
    chance: random.Random,
) -> tuple[Constants, Configuration] | None:
    """Return constants, one of which has a given value, and the configuration that they make.

    The candidates for the other constants range from varied to minimal values. The first candidate
    that the reference accepts is returned, with values of `missing` put in where possible. The
    result is None if the reference accepts no candidate.

    Args:
        sizes: The reference.
        lead: Name and value of the given constant.
        missing: Names and values that no configuration has yet.
        company: Small and large values for the other constants.
        chance: Random generator.
    """
    name, value = lead
    own = sizes.constants
    # Sizes that are equal in the file may have to stay equal, and one size may have to be a
    # multiple of another. Every size is a multiple of 1.
    alike = _alike(own, name, value)
    settings = {each: size for each, size in own.items() if not _is_size(each, size)}
    few = _SMALL if value < max(_SIZES) else _FEW_OF_WIDEST
    several = sorted({size for size in settings.values() if size > 1})
    least = [company.least] if company.least else []
    for start in (
        # A stride has an effect only if there is more than one window.
        *([{**company.roomy, name: value}] if name in settings else []),
        *({**_small(own, chance, few), name: value} for _ in range(_TRIES)),
        *({**each, name: value} for each in least),
        *({**each, **alike} for each in least),
        *({**_small(own, chance), name: -(-value // s) * s} for s in settings.values() if s > 1),
        *({**each, name: -(-value // s) * s} for each in least for s in several),
        *(_multiples({**_small(own, chance), name: value}, settings, s) for s in several),
        {**_small(own, chance), **alike},
        alike,
        {**_small(own, chance), **dict.fromkeys(settings, 1), name: value},
        # In three dimensions, a wide size is too much work beside anything but 1.
        {**{each: 1 for each in own if each not in settings}, name: value},
        {**{each: min(size, 1) for each, size in own.items()}, name: value},
        # A size that `Model` splits by a number of its own must be a multiple of it. Every multiple
        # of an accepted size is.
        *({**each, name: -(-value // each[name]) * each[name]} for each in least if each[name]),
    ):
        constants = {**own, **start}
        if not sizes.is_within(constants, _MOST_WORK_OF_WIDE):
            continue
        fuller = _filled(sizes, constants, name, missing, chance)
        for each in (fuller, constants):
            configuration = sizes.configuration(each)
            if configuration is not None:
                return each, configuration
    return None


def _multiples(constants: Constants, settings: Mapping[str, int], of: int) -> Constants:
    """Return the constants with all sizes rounded up to multiples of `of`.

    The constants in `settings`, such as groups, keep their values. For example, channels must be
    multiples of groups.
    """
    return {
        name: value if name in settings else -(-value // of) * of
        for name, value in constants.items()
    }


def _filled(
    sizes: Sizes,
    constants: Constants,
    lead: str,
    missing: Sequence[tuple[str, int]],
    chance: random.Random,
) -> Constants:
    """Return the constants with values of `missing` put in, as long as a call stays cheap.

    The constant `lead` keeps its value.
    """
    for name in chance.sample(list(constants), len(constants)):
        values = [value for each, value in missing if each == name != lead]
        for value in chance.sample(values, min(_TRIES, len(values))):
            if sizes.is_within(constants | {name: value}, _MOST_WORK):
                constants = constants | {name: value}
                break
    return constants


def _small(own: Mapping[str, int], chance: random.Random, of: Sequence[int] = _SMALL) -> Constants:
    """Return a random small value for each size; sizes that are equal in the file stay equal."""
    sizes = {name: value for name, value in own.items() if _is_size(name, value)}
    small = {value: chance.choice(of) for value in sorted(set(sizes.values()))}
    return {name: small[value] for name, value in sizes.items()}
