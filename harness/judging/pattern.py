"""The property that failing cases have in common, and the smallest failing case."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from harness.messages.kinds import Move
from harness.problems import families
from harness.problems.grid import Case
from harness.problems.surroundings import move_for

# With fewer failures, or fewer right cases, some property or pair of properties nearly always fits
# by accident.
_ENOUGH_FOR_ONE = 2
_ENOUGH_FOR_PAIR = 4
# A sixth of the cases has each move. So few failures rarely are all cases of one move by accident.
_ENOUGH_FOR_MOVE = 6
# Least separation of a reported property: the share of failing cases that have it, minus the share
# of passing cases that have it.
_WORTH_SAYING = 0.5
# Largest share of failures among the cases without a reported property.
_MOST_OTHERS = 0.25


@dataclass(frozen=True)
class _Property:
    """A property that some cases have, such as a stride above 1.

    Attributes:
        words: Description of the property.
        opposite: Description of the opposite property.
        holds: Ids of the cases that have the property.
    """

    words: str
    opposite: str
    holds: frozenset[str]


def what_failing_cases_share(cases: Sequence[Case], failed: Collection[str]) -> str:
    """Find the simplest property that separates failing cases from the others.

    Args:
        cases: The cases that passed or failed; declined ones are left out.
        failed: Ids of the failing cases.

    Returns:
        One sentence, such as "all 23 with stride > 1 fail; none with stride 1". It is empty if
        nothing simple separates the cases.
    """
    every = frozenset(case.id for case in cases)
    failures = every & frozenset(failed)
    if not failures:
        return ""
    if len(failures) < _ENOUGH_FOR_ONE or len(every - failures) < _ENOUGH_FOR_ONE:
        return ""
    # One property that fits exactly comes first, then two of them, then one that nearly fits. Every
    # step is tried only if the simpler one failed, since a sentence with fewer conditions helps
    # more.
    properties = list(_properties(cases))
    for one in properties:
        if one.holds == failures:
            return f"all {len(failures)} with {one.words} fail; none {one.opposite}"
    if move := _move_of(cases, failures):
        return f"all {len(failures)} with the model moved by {move} fail; none of the others"
    if len(failures) >= _ENOUGH_FOR_PAIR:
        for one, other in itertools.combinations(properties, 2):
            if one.holds & other.holds == failures:
                words = f"{one.words} and {other.words}"
                return f"all {len(failures)} with {words} fail; none of the others"
    return _nearest(properties, every, failures)


def _move_of(cases: Sequence[Case], failures: frozenset[str]) -> Move | None:
    """Return the call that moved the model in all failing cases and in no other case, or None."""
    if len(failures) < _ENOUGH_FOR_MOVE:
        return None
    moves: Sequence[Move] = get_args(Move)
    return next(
        (each for each in moves if failures == {c.id for c in cases if move_for(c) == each}), None
    )


def smallest(cases: Collection[Case]) -> Case:
    """Return the case that is easiest to follow by hand.

    This is the case with the least work; among equals, the one with the fewest unusual arguments.

    Args:
        cases: At least one case.

    Raises:
        ValueError: There is no case.
    """
    if not cases:
        raise ValueError("there is no smallest of no cases; give the failing ones")
    return min(cases, key=_size)


def _size(case: Case) -> tuple[int, int, str]:
    family = families.named(case.family)
    unusual = sum(case.arguments.get(n, value) != value for n, value in family.neutral.items())
    return family.work(case), unusual, case.id


def _nearest(
    properties: Sequence[_Property], every: frozenset[str], failures: frozenset[str]
) -> str:
    """Describe the property that best separates failing from passing cases; "" if none does."""
    passes = every - failures

    def separation(one: _Property) -> float:
        caught = len(one.holds & failures) / len(failures)
        return caught - len(one.holds & passes) / len(passes)

    best = max(properties, key=separation, default=None)
    if best is None or separation(best) < _WORTH_SAYING:
        return ""
    inside, outside, others = best.holds & failures, failures - best.holds, every - best.holds
    if len(outside) > _MOST_OTHERS * len(others):
        return ""
    return (
        f"{len(inside)} of {len(best.holds)} with {best.words} fail; "
        f"{len(outside)} of the {len(others)} others"
    )


def _properties(cases: Sequence[Case]) -> Iterator[_Property]:
    """Yield the properties of the cases, the simplest first."""
    # All cases belong to one problem, and so to one family.
    family = families.named(cases[0].family)
    facts = {case.id: family.facts(case) for case in cases}
    names = list(dict.fromkeys(name for fact in facts.values() for name in fact))
    for name in names:
        values = {case: fact[name] for case, fact in facts.items() if name in fact}
        is_parameter = name in family.neutral
        if all(isinstance(value, bool) for value in values.values()):
            yield from (_of_switch if is_parameter else _of_relation)(name, values)
        else:
            yield from _of_number(name if is_parameter else name.replace("_", " "), values)


def _of_switch(name: str, values: Mapping[str, object]) -> Iterator[_Property]:
    """Yield two properties of a boolean parameter: that it is on, and that it is off."""
    holds = _where_true(values)
    yield _Property(name, f"without {name}", holds)
    yield _Property(f"no {name}", f"with {name}", frozenset(values) - holds)


def _of_relation(words: str, values: Mapping[str, object]) -> Iterator[_Property]:
    """Yield the property that a boolean fact is true; its opposite has no description."""
    yield _Property(words, "of the others", _where_true(values))


def _where_true(values: Mapping[str, object]) -> frozenset[str]:
    return frozenset(case for case, value in values.items() if value)


def _of_number(shown: str, values: Mapping[str, object]) -> Iterator[_Property]:
    """Yield properties of a parameter or size: above, at most, or equal to each of its values."""
    distinct = sorted({v for v in values.values() if isinstance(v, int)})
    for low in distinct[:-1]:
        holds = frozenset(c for c, v in values.items() if isinstance(v, int) and v > low)
        below = f"{shown} {low}" if low == distinct[0] else f"{shown} {low} or less"
        yield _Property(f"{shown} > {low}", f"with {below}", holds)
        rest = frozenset(values) - holds
        yield _Property(below, f"with {shown} > {low}", rest)
    for value in distinct:
        holds = frozenset(case for case, v in values.items() if v == value)
        yield _Property(f"{shown} {value}", "of the others", holds)
