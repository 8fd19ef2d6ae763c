"""Things of which some are alike, told apart by their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def occurrences(items: Iterable[T]) -> Iterator[tuple[T, int]]:
    """Give each item with the number of those before it that equal it.

    >>> list(occurrences("abaa"))
    [('a', 0), ('b', 0), ('a', 1), ('a', 2)]
    """
    seen: Counter[T] = Counter()
    for item in items:
        yield item, seen[item]
        seen[item] += 1
