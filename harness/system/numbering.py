"""Numbering of items among those with the same key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def numbered(items: Iterable[T], key: Callable[[T], K]) -> Iterator[tuple[tuple[K, int], T]]:
    """Yield each item with its key and the number of earlier items that have the same key.

    >>> list(numbered(["ab", "c", "de"], len))
    [((2, 0), 'ab'), ((1, 0), 'c'), ((2, 1), 'de')]
    """
    seen: Counter[K] = Counter()
    for item in items:
        same = key(item)
        yield (same, seen[same]), item
        seen[same] += 1
