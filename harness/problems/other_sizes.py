"""Which other values a reference's constants get, where nothing is known of what they mean.

Mistakes hide where a size is not a multiple of a warp, a block or a vector, where a loop makes one
turn or none, and where an index needs more than 16 bits. So every constant gets the values around
those, one at a time and in changing company, as far as the work of a call stays small.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.problems.configuration import Configuration
from harness.problems.families.family import Sizes

Constants = dict[str, int]

# From here on a constant is a size; below it may be a kernel's, a stride, or a dimension's number.
_LEAST_SIZE = 16
_SIZES = (1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025, 4099, 65537)
_SETTINGS = (1, 2, 3)
# Of an input's size that is as small as a setting, such as three channels: beyond tiles of a warp
# and of a block.
_BEYOND_TILES = (33, 129)
_MOST_WORK = 1 << 18
"""Of a case; a case of a wide size may take more, since nothing smaller has it."""
_MOST_WORK_OF_WIDE = 1 << 22
_MOST_WORK_OF_OWN = 1 << 19
_WORK_OF_SETTING = 1 << 16
# Of what takes more however small it is, such as a convolution in three dimensions.
_MOST_WORK_OF_LARGE = 1 << 24
# For kernels that take much longer than they need to, such as one that sums all inputs once more
# for each output: eight times fewer of either are 64 times less work.
_LESS_WORK_OF_OWN = (1 << 16, 1 << 13, 1 << 10)
_TRIES = 4
# What is done alike for each of them, by how people call it.
_REPEATS = re.compile("batch|head", re.IGNORECASE)
_FEW = 4
_CUTS = tuple(size for power in range(16, 1, -1) for size in (1 << power, 3 << power - 2))
# Sizes of the company that a wide size is in; none but few for the widest, nor 1 alone.
_SMALL = (2, 3, 5, 1)
_FEW_OF_WIDEST = (2, 3)
_UNLIKE = (2, 3, 5)
# Of the others beside a size at random, the later the try the less.
_MOST_OF_RANDOM = (256, 256, 64, 64, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1)
_LIKE_OWN = 0.25


def own_sizes(sizes: Sizes) -> Iterator[Configuration]:
    """The reference's own configuration, with its sizes cut alike until a call is quick.

    Batches and heads are cut to a few, where they need not be as many as something else: they are
    the same work once more.

    Returns:
        The largest that is quick, and smaller ones.
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
        if sizes.work(constants) <= most_work:
            configuration = sizes.configuration(constants)
            if configuration is not None:
                return configuration
    return None


def _cut(own: Mapping[str, int], cuts: Sequence[int]) -> Iterator[Constants]:
    for few in (_FEW, max(own.values(), default=0)):
        for most in cuts:
            yield {
                name: min(value, most, few if _REPEATS.search(name) else most)
                for name, value in own.items()
            }


@dataclass(frozen=True)
class _Company:
    """Sizes beside a value that leads.

    Attributes:
        least: The least that the reference works with, if it works with any that are cheap.
        roomy: Where a setting leads: larger ones, or none.
    """

    least: Constants | None
    roomy: Mapping[str, int]


def other_sizes(sizes: Sizes, turns: int) -> Iterator[Configuration]:
    """Configurations in which every constant has every value of its list, as far as that works.

    Args:
        sizes: The reference.
        turns: In how many configurations each value comes, in other company.
    """
    # The same ones in every run.
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
        # The largest leave least room for others.
        missing.sort(key=lambda each: -each[1])
        while missing:
            lead = missing.pop(0)
            found = _around(sizes, lead, missing, company, chance)
            if found is not None:
                constants, configuration = found
                # A setting beside small sizes may show nowhere: it has to come beside larger ones.
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
    """A configuration that is in no list: one size of any magnitude, the others smaller.

    Args:
        sizes: The reference.
        chance: Of a secret seed, so that nobody knows which sizes come.

    Returns:
        What the reference works with, and is quick; None where a few tries have not found any.
    """
    own = sizes.constants
    settings = {name: value for name, value in own.items() if not _is_size(name, value)}
    wide = [name for name in own if name not in settings]
    if not wide:
        return None
    roomy = _own_sizes_within(sizes, _WORK_OF_SETTING)
    for most in _MOST_OF_RANDOM:
        lead = chance.choice(wide)
        # What is equal in the file may have to be, and one size a multiple of another.
        beside = {own[name]: _any_size(chance, most) for name in wide}
        multiple = chance.choice([1, *(value for value in settings.values() if value > 1)])
        company = roomy.constants if roomy and chance.random() < _LIKE_OWN else {}
        constants = {
            **own,
            **{name: multiple * beside[own[name]] for name in wide},
            **company,
            lead: multiple * _any_size(chance, max(_SIZES) // multiple),
        }
        for each in (constants, constants | _alike(own, lead, constants[lead])):
            if sizes.work(each) <= _MOST_WORK and (found := sizes.configuration(each)):
                return found
    return None


def _any_size(chance: random.Random, most: int) -> int:
    """Up to a number; each magnitude is as likely."""
    size: float = most ** chance.random()
    return round(size)


def _alike(own: Mapping[str, int], name: str, value: int) -> Constants:
    return {each: value for each, size in own.items() if size == own[name]}


def _all_small(sizes: Sizes) -> Iterator[Configuration]:
    """Nothing but small sizes: in a mean of a few numbers a wrong one shows."""
    own = sizes.constants
    unlike = sorted({value for name, value in own.items() if _is_size(name, value)})
    for turn in range(len(_UNLIKE)):
        small = {size: _UNLIKE[(turn + i) % len(_UNLIKE)] for i, size in enumerate(unlike)}
        configuration = sizes.configuration(
            {n: small[v] if _is_size(n, v) else v for n, v in own.items()}
        )
        if configuration is not None:
            yield configuration


def _is_size(name: str, own: int) -> bool:
    return own >= _LEAST_SIZE or _REPEATS.search(name) is not None


def _values(sizes: Sizes, name: str, *, is_cut: bool) -> tuple[int, ...]:
    """Those that a constant is to have; `is_cut` says that its own is not in the own configuration.

    A kernel may go another way at just that size.
    """
    own = sizes.constants[name]
    if _is_size(name, own):
        is_another = is_cut and own not in _SIZES and own < max(_SIZES)
        return (*_SIZES, own) if is_another else _SIZES
    # What is below 0 counts dimensions from the end; a 0 may be a padding.
    if own < 0 or name in sizes.of_broadcasts:
        return ()
    larger = _BEYOND_TILES if name in sizes.of_inputs else ()
    return tuple(value for value in (*_SETTINGS, own + 1, *larger) if value != own)


def _least(sizes: Sizes) -> Constants | None:
    """The least sizes that the reference works with: cut alike, and then one after the other.

    A window of 11 leaves nothing of 5 rows.
    """
    for least in _cut(sizes.constants, _CUTS[::-1]):
        if sizes.work(least) <= _MOST_WORK_OF_WIDE and sizes.configuration(least):
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
    """A configuration with a given value, and others that are missing where they fit."""
    name, value = lead
    own = sizes.constants
    # What is equal in the file may have to be, and one size a multiple of another: of 1 all are.
    alike = _alike(own, name, value)
    settings = {each: size for each, size in own.items() if not _is_size(each, size)}
    few = _SMALL if value < max(_SIZES) else _FEW_OF_WIDEST
    several = sorted({size for size in settings.values() if size > 1})
    least = [company.least] if company.least else []
    for start in (
        # A stride shows where there is more than one window.
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
        # In three dimensions a wide size is much work beside anything but the least there is.
        {**{each: 1 for each in own if each not in settings}, name: value},
        {**{each: min(size, 1) for each, size in own.items()}, name: value},
        # What is split by numbers inside `Model` has to be a multiple of what works.
        *({**each, name: -(-value // each[name]) * each[name]} for each in least if each[name]),
    ):
        constants = {**own, **start}
        if sizes.work(constants) > _MOST_WORK_OF_WIDE:
            continue
        fuller = _filled(sizes, constants, name, missing, chance)
        for each in (fuller, constants):
            configuration = sizes.configuration(each)
            if configuration is not None:
                return each, configuration
    return None


def _multiples(constants: Constants, settings: Mapping[str, int], of: int) -> Constants:
    """All sizes as the next multiples, which channels of groups have to be."""
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
    """As many of the missing values as fit into a call's work, one for each other constant."""
    for name in chance.sample(list(constants), len(constants)):
        values = [value for each, value in missing if each == name != lead]
        for value in chance.sample(values, min(_TRIES, len(values))):
            if sizes.work(constants | {name: value}) <= _MOST_WORK:
                constants = constants | {name: value}
                break
    return constants


def _small(own: Mapping[str, int], chance: random.Random, of: Sequence[int] = _SMALL) -> Constants:
    """Small sizes, equal where the reference's are, and its own settings."""
    sizes = {name: value for name, value in own.items() if _is_size(name, value)}
    small = {value: chance.choice(of) for value in sorted(set(sizes.values()))}
    return {name: small[value] for name, value in sizes.items()}
