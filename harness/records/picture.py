"""A wrong output as a map that is small enough to keep, whatever the output's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

CODES = " .thb0123456789inuo"
"""What a cell of a map can say, from right to gravest.

A space: no element is there. `.`: within the fp32 class's bound. `t`, `h`, `b`: only within that
of tf32, fp16, bf16. `0` to `9`: wrong, by 2**d to 2**(d + 1) times the bf16 class's bound, `9` by
more as well. `i`: infinite, `n`: NaN, where the reference is not. `u`: never written. `o`: out of
bounds. Where the output has an element, that is NaN, and its call loaded what lies out of bounds;
where it has none, something was written beside it, or it has another shape than it should.
"""
WRONG = frozenset(CODES[5:])
"""Those of elements that no class allows."""

LEVELS = "EDCBA.abcdeinuo"
"""What a cell of a map of values can say.

`.`: 0, or at most 1/64 of the largest expected value. `a` to `d`: up to 1/16, 1/8, 1/2 and all of
it, `e`: beyond it; capital letters are negative. `i`, `n`, `u`, `o`: as in `CODES`.
"""

Rows: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class View:
    """A part of an output, or all of it, as cells; a cell says the gravest of its elements.

    An output is seen as pages of rows and columns: its last dimension but one and its last one;
    pages are all dimensions before them, in their order. What was written beside it in memory is in
    rows before the first page's first one, or behind the last page's last one.

    Attributes:
        pages: Numbers of the pages that are shown.
        first: Row and column of the first cell's first element; the row is below 0 where something
            was written before the output.
        step: How many rows and columns of elements a cell has.
        errors: For each page its rows, a string of `CODES` each.
        mistake: The same of what the diagnosed mistake gives; empty where there is none.
        expected: For each page its rows, a string of `LEVELS` each: the oracle's values, of each
            cell the largest.
        actual: The same of the submission's.
    """

    pages: tuple[int, ...]
    first: tuple[int, int]
    step: tuple[int, int]
    errors: Rows
    mistake: Rows
    expected: Rows
    actual: Rows


@dataclass(frozen=True)
class Element:
    """One number of the output. What is not finite is text, as JSON has no number for it.

    Attributes:
        index: Where it stands.
        expected: The oracle's value.
        actual: The submission's.
        error: As a multiple of the fp32 class's bound.
        mistake: What the diagnosed mistake gives; None where there is none.
    """

    index: tuple[int, ...]
    expected: float | str
    actual: float | str
    error: float | str
    mistake: float | str | None = None


@dataclass(frozen=True)
class Picture:
    """A wrong output.

    Attributes:
        run: Name of the run.
        shape: The output's; of one of another shape than it should have, the larger of the two in
            each dimension.
        overview: All of it, reduced if it is large.
        detail: Around the first wrong element, one element a cell; None where `overview` is so.
        elements: Some wrong ones, and fewer right ones, in their order.
        mistake: Name of the diagnosed mistake; empty where there is none.
    """

    run: str
    shape: tuple[int, ...]
    overview: View
    detail: View | None
    elements: tuple[Element, ...]
    mistake: str = ""
