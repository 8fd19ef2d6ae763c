"""Maps of a wrong output: the size of a map is limited, however large the output is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

CODES = " .thb0123456789inuo"
"""The codes of a map's cells, from right to gravest.

- Space: no element is here.
- `.`: within the fp32 class's bound.
- `t`, `h`, `b`: only within the bound of tf32, fp16, bf16.
- `0` to `9`: wrong, by 2**d to 2**(d + 1) times the bf16 class's bound; `9` also by more.
- `i`: infinite, `n`: NaN, where the reference is not.
- `u`: never written.
- `o`: out of bounds. At an element of the output: the element is NaN, and its call loaded a value
  from out of bounds. Elsewhere: a kernel wrote outside the output, or the output has a wrong shape.
"""
WRONG = frozenset(CODES[5:])
"""The codes of elements that are wrong in every class."""

LEVELS = "EDCBA.abcdeinuo"
"""The codes of a map of values.

- `.`: 0, or at most 1/64 of the largest expected value.
- `a` to `d`: up to 1/16, 1/8, 1/2 and all of the largest expected value.
- `e`: beyond it.
- Capital letters: the same magnitudes, negative.
- `i`, `n`, `u`, `o`: as in `CODES`.
"""

Rows: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class View:
    """An output, or a part of it, as cells; each cell has the code of its worst element.

    An output is shown as pages. Rows and columns of a page are the output's last two dimensions;
    the pages are all dimensions before them, flattened in order. A write outside the output appears
    in rows above the first page if it lies before the output in memory, else below the last page.

    Attributes:
        pages: Numbers of the pages that are shown.
        first: Row and column of the first cell's first element. The row is negative if something
            was written before the output.
        step: Numbers of rows and columns of elements in a cell.
        errors: For each page its rows, each a string of `CODES`.
        mistake: As `errors`, for the output that the diagnosed mistake would give; empty if there
            is no diagnosis.
        expected: For each page its rows, each a string of `LEVELS`: the largest of the oracle's
            values in each cell.
        actual: As `expected`, for the submission's values.
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
    """One element of the output; a value that is not finite is text, as JSON has no number for it.

    Attributes:
        index: Index of the element.
        expected: The oracle's value.
        actual: The submission's value.
        error: The error as a multiple of the fp32 class's bound.
        mistake: The value that the diagnosed mistake would give; None if there is no diagnosis.
    """

    index: tuple[int, ...]
    expected: float | str
    actual: float | str
    error: float | str
    mistake: float | str | None = None


@dataclass(frozen=True)
class Picture:
    """Maps and example values of a wrong output.

    Attributes:
        run: Name of the run (distribution of inputs, set of weights) that gave the output.
        shape: Shape of the output. If the shape is wrong, it has in each dimension the larger of
            the wrong and the right size.
        overview: The whole output, reduced if it is large.
        detail: The surroundings of the first wrong element, one element a cell; None if `overview`
            already has one element a cell.
        elements: Some wrong elements and fewer right ones, in the order of their indices.
        mistake: Name of the diagnosed mistake; empty if there is none.
    """

    run: str
    shape: tuple[int, ...]
    overview: View
    detail: View | None
    elements: tuple[Element, ...]
    mistake: str = ""
