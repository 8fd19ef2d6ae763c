"""Pictures of wrong outputs: where they are wrong, by how much, and what a mistake would give.

Only outputs that the report of a failing submission shows are drawn, because the oracle computes
each drawn output once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from harness.judging.oracle import CLASSES, expected
from harness.problems.bounds import Expected
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import CaseValues
from harness.records.picture import CODES, LEVELS, Element, Picture, Rows, View

MOST_ROWS, MOST_COLUMNS = 32, 96
"""The most cells of a map; a larger output is shown reduced."""
_MOST_PAGES = 8
# The most cells of a view. A page that fills it is shown alone.
_MOST_CELLS = 3072
_DETAIL_ROWS, _DETAIL_COLUMNS = 16, 64
_MOST_WRONG, _MOST_RIGHT = 30, 10
# The most rows for stores before an output, and behind it. Stores that are farther off are not
# drawn.
_MOST_BESIDE = 4
_NOTHING, _UNWRITTEN, _OUTSIDE = CODES.index(" "), CODES.index("u"), CODES.index("o")
_FIRST_WRONG = CODES.index("0")
_LAST_DIGIT = CODES.index("9")
_ZERO = LEVELS.index(".")
# The upper ends of the levels from `.` to `d`, as shares of the largest expected value.
_STEPS = (1 / 64, 1 / 16, 1 / 8, 1 / 2, 1.0 + 1e-6)


@dataclass(frozen=True)
class WrongOutput:
    """An output that the oracle did not accept, with the values that it was computed from.

    Attributes:
        run: The run (distribution of inputs, set of weights) that gave the output.
        values: Weights and inputs of the call.
        actual: The output, on the CPU.
        unwritten: Mask of the elements that nothing wrote; None if unknown.
        has_gaps: True if a kernel was stopped, or read memory that nothing wrote. Elements may then
            be unwritten for that reason.
        beside: Ranges that kernels wrote beside the output, each as the numbers of its first and
            last element. The output's first element has number 0; elements before it have negative
            numbers.
        is_from_outside: True if the output's NaNs come from loads out of bounds.
        output: Index of the output among the reference's outputs, from 0.
    """

    run: Run
    values: CaseValues
    actual: Tensor
    unwritten: Tensor | None
    has_gaps: bool
    beside: tuple[tuple[int, int], ...] = ()
    is_from_outside: bool = False
    output: int = 0


@dataclass(frozen=True)
class MistakenOutput:
    """The output that a known mistake would give.

    Attributes:
        name: Short name of the mistake.
        output: Output of the mistake, float64 on the CPU. None if only the shape is wrong, if the
            only mistake is a store beside the output, or if the call gave no output.
        is_from_outside: True if NaNs in the output come from loads out of bounds. If `output` is
            None, True if every element would come from such a load.
    """

    name: str
    output: Tensor | None = None
    is_from_outside: bool = False


def picture(
    problem: Problem, case: Case, wrong: WrongOutput, mistaken: MistakenOutput | None = None
) -> Picture:
    """Return a picture of a wrong output: maps of errors and values, and example elements.

    Args:
        problem: The reference.
        case: The case.
        wrong: The wrong output. It has no elements if the call gave no output. An output of wrong
            shape has as many dimensions as the right one.
        mistaken: The output of the diagnosed mistake for the same values.

    Returns:
        A picture of some kilobytes, whatever the output's size.
    """
    right = expected(problem, case, wrong.values.weights, wrong.values.inputs)
    frame = _Frame.of(tuple(right.value.shape), wrong)
    actual = frame.as_right(wrong.actual)
    codes = _codes(actual, right, wrong.run, is_from_outside=wrong.is_from_outside)
    missing = frame.missing()
    gaps = missing if wrong.unwritten is None else frame.as_right(wrong.unwritten) | missing
    # An unwritten element may be right by accident. It keeps its code then.
    codes[gaps & (codes >= _FIRST_WRONG)] = _UNWRITTEN
    levels = _levels(actual, right.value)
    levels[gaps] = LEVELS.index("u")
    maps = _Maps(
        errors=frame.filled(codes, _OUTSIDE),
        mistake=_mistaken_codes(frame, right, wrong.run, mistaken) if mistaken else None,
        expected=frame.filled(_levels(right.value, right.value), _ZERO),
        actual=frame.filled(levels, LEVELS.index("o")),
        above=frame.above,
    )
    gives = None if mistaken is None or mistaken.output is None else mistaken.output
    return Picture(
        run=wrong.run.name,
        shape=frame.shape,
        overview=maps.overview(),
        detail=maps.detail(),
        elements=_elements(actual, right, codes, missing, gives),
        mistake=mistaken.name if mistaken else "",
    )


def _mistaken_codes(frame: _Frame, right: Expected, run: Run, mistaken: MistakenOutput) -> Tensor:
    """Return the error map of the output that the suspected mistake would give.

    It has pages, rows and columns, and its elements are indices into `CODES`.
    """
    if mistaken.output is None:
        code = _OUTSIDE if mistaken.is_from_outside else CODES.index(".")
        codes = torch.full(right.value.shape, code, dtype=torch.uint8)
        if mistaken.is_from_outside:
            return frame.filled(codes, _NOTHING)
        codes[frame.missing()] = _UNWRITTEN
        return frame.filled(codes, _OUTSIDE)
    output, is_from_outside = mistaken.output, mistaken.is_from_outside
    codes = _codes(output, right, run, is_from_outside=is_from_outside)
    return frame.filled(codes, _NOTHING)


@dataclass(frozen=True)
class _Frame:
    """The area of a picture: an output's elements, and the stores beside it.

    Attributes:
        right: The shape that the output should have.
        given: The shape of the submission's output; zeros if its number of dimensions is wrong.
        beside: As in `WrongOutput`.
        above: Number of rows that are drawn before the first page.
        below: Number of rows that are drawn behind the last page.
    """

    right: tuple[int, ...]
    given: tuple[int, ...]
    beside: tuple[tuple[int, int], ...]
    above: int
    below: int

    @classmethod
    def of(cls, right: tuple[int, ...], wrong: WrongOutput) -> _Frame:
        """Return a frame with enough rows for the stores beside an output, up to a limit."""
        given = tuple(wrong.actual.shape)
        if len(given) != len(right):
            given = (0,) * len(right)
        beside = wrong.beside if given == right else ()
        columns = max(1, right[-1] if right else 1)
        size = math.prod(right)
        before = max((-low for low, _ in beside), default=0)
        behind = max((high + 1 - size for _, high in beside), default=0)
        above, below = (min(_MOST_BESIDE, -(-max(n, 0) // columns)) for n in (before, behind))
        return cls(right, given, beside, above, below)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with room for both outputs: the larger size in each dimension."""
        return tuple(map(max, self.right, self.given))

    def as_right(self, output: Tensor) -> Tensor:
        """Return a tensor in the right shape; elements that `output` lacks are NaN or False."""
        if self.given == self.right:
            return output
        blank = torch.nan if output.is_floating_point() else 0
        placed = torch.full(self.right, blank, dtype=output.dtype)
        if output.dim() == len(self.right):
            placed[self._common()] = output[self._common()]
        return placed

    def missing(self) -> Tensor:
        """Return a mask of the elements of the right shape that the actual output does not have."""
        missing = torch.ones(self.right, dtype=torch.bool)
        missing[self._common()] = False
        return missing

    def filled(self, places: Tensor, outside: int) -> Tensor:
        """Return codes as pages, with the code `outside` at the stores beside the output.

        Args:
            places: Codes of the right shape, uint8.
            outside: Code for elements outside the right shape, and for stores beside the output.
        """
        framed = torch.full(self.shape, _NOTHING, dtype=torch.uint8)
        framed[tuple(slice(size) for size in self.given)] = outside
        framed[tuple(slice(size) for size in self.right)] = places
        pages = _as_pages(framed)
        count, rows, columns = pages.shape
        blank = torch.full((count, self.above + rows + self.below, columns), _NOTHING)
        blank[:, self.above : self.above + rows] = pages
        # Rows follow one another in memory. So memory before the output continues the first page
        # upwards, and memory behind it continues the last page downwards.
        before = blank[0, : self.above].view(-1)
        behind = blank[-1, self.above + rows :].view(-1)
        size = math.prod(self.right)
        for low, high in self.beside:
            before[max(0, len(before) + low) : max(0, len(before) + high + 1)] = outside
            behind[max(0, low - size) : max(0, high + 1 - size)] = outside
        return blank.to(torch.uint8)

    def _common(self) -> tuple[slice, ...]:
        return tuple(slice(min(sizes)) for sizes in zip(self.right, self.given, strict=True))


def _codes(actual: Tensor, right: Expected, run: Run, *, is_from_outside: bool = False) -> Tensor:
    """Return how wrong each element is, as an index in `CODES`; uint8, of the output's shape."""
    value = right.value.double()
    error = (actual.double() - value).abs()
    wrong_by = error / right.bound(CLASSES[-1])
    digit = wrong_by.log2().floor().nan_to_num(0.0).clamp(0, _LAST_DIGIT - _FIRST_WRONG)
    codes = (_FIRST_WRONG + digit).to(torch.uint8)
    # From the loosest class to the tightest, so that the tightest class that holds is the last to
    # set a code. Elements that no class allows keep a digit, the logarithm of error over bound.
    for number in reversed(range(len(CLASSES))):
        allowed = error <= right.bound(CLASSES[number])
        # The fp32 class allows no error at all in an exact run.
        allowed &= (error == 0) | (not run.is_exact or number > 0)
        codes[allowed] = CODES.index(".") + number
    codes[actual.isinf()] = CODES.index("i")
    codes[actual.isnan()] = _OUTSIDE if is_from_outside else CODES.index("n")
    same = (actual.double() == value) | (actual.isnan() & value.isnan())
    codes[same] = CODES.index(".")
    return codes


def _as_pages(codes: Tensor) -> Tensor:
    rows = codes.shape[-2] if codes.dim() > 1 else 1
    columns = codes.shape[-1] if codes.dim() else 1
    return codes.reshape(-1, rows, columns)


def _levels(values: Tensor, right: Tensor) -> Tensor:
    """Return the size of each value, as an index in `LEVELS`; uint8, of the values' shape."""
    scale = right.double().nan_to_num(0.0, 0.0, 0.0).abs().max()
    share = values.double().abs() / scale
    steps = torch.tensor(_STEPS, dtype=torch.float64)
    level = torch.bucketize(share.nan_to_num(0.0, 2.0).contiguous(), steps)
    levels = (_ZERO + torch.where(values < 0, -level, level)).to(torch.uint8)
    levels[values.isinf()] = LEVELS.index("i")
    levels[values.isnan()] = LEVELS.index("n")
    return levels


@dataclass(frozen=True)
class _Maps:
    """The maps of a picture: indices in `CODES` and `LEVELS`, each uint8 (pages, rows, columns).

    The first `above` rows of the first page show memory before the output.
    """

    errors: Tensor
    mistake: Tensor | None
    expected: Tensor
    actual: Tensor
    above: int

    def overview(self) -> View:
        """Return a view of the whole output, reduced if it is large."""
        _, rows, columns = self.errors.shape
        step = (math.ceil(rows / MOST_ROWS), math.ceil(columns / MOST_COLUMNS))
        cells = math.ceil(rows / step[0]) * math.ceil(columns / step[1])
        most = max(1, min(_MOST_PAGES, _MOST_CELLS // max(cells, 1)))
        pages = self._pages_shown(most)
        return self._view(pages, (0, 0), step, lambda tensor: tensor[torch.tensor(pages)])

    def detail(self) -> View | None:
        """Return a view around the first wrong element, one element a cell.

        Return None if nothing is wrong, or if the overview has one element a cell.
        """
        _, rows, columns = self.errors.shape
        wrong = (self.errors >= _FIRST_WRONG).nonzero()
        if not len(wrong) or (rows <= MOST_ROWS and columns <= MOST_COLUMNS):
            return None
        page, row, column = (int(i) for i in wrong[0])
        # The view also shows some right elements before the wrong one.
        top, left = max(0, row - _DETAIL_ROWS // 4), max(0, column - _DETAIL_COLUMNS // 4)
        window = (slice(top, top + _DETAIL_ROWS), slice(left, left + _DETAIL_COLUMNS))
        return self._view((page,), (top, left), (1, 1), lambda t: t[page : page + 1, *window])

    def _pages_shown(self, most: int) -> tuple[int, ...]:
        """Return the numbers of at most `most` pages to show; pages with wrong elements go first.

        The numbers are in ascending order.
        """
        is_wrong = (self.errors >= _FIRST_WRONG).flatten(1).any(1)
        order = sorted(range(len(is_wrong)), key=lambda page: not is_wrong[page])
        return tuple(sorted(order[:most]))

    def _view(
        self,
        pages: tuple[int, ...],
        first: tuple[int, int],
        step: tuple[int, int],
        part: Callable[[Tensor], Tensor],
    ) -> View:
        return View(
            pages,
            (first[0] - self.above, first[1]),
            step,
            errors=_text(_largest_code(part(self.errors), step), CODES),
            mistake=()
            if self.mistake is None
            else _text(_largest_code(part(self.mistake), step), CODES),
            expected=_text(_largest(part(self.expected), step), LEVELS),
            actual=_text(_largest(part(self.actual), step), LEVELS),
        )


def _largest_code(pages: Tensor, step: tuple[int, int]) -> Tensor:
    """Return the gravest code of each cell's elements: `CODES` are in order of gravity."""
    return max_pool2d(pages.float().unsqueeze(1), step, ceil_mode=True).squeeze(1)


def _largest(pages: Tensor, step: tuple[int, int]) -> Tensor:
    """Return the level that is farthest from zero among each cell's elements."""
    places = pages.float()
    high, low = _largest_code(places, step), -_largest_code(-places, step)
    return torch.where(high - _ZERO >= _ZERO - low, high, low)


def _text(pages: Tensor, codes: str) -> Rows:
    return tuple(
        tuple("".join(codes[int(code)] for code in row) for row in page) for page in pages.tolist()
    )


def _elements(
    actual: Tensor, right: Expected, codes: Tensor, missing: Tensor, mistaken: Tensor | None
) -> tuple[Element, ...]:
    """Return some wrong elements and some right ones, with their index in the right shape."""
    flat, value = actual.flatten(), right.value.double().flatten()
    bound = right.bound(CLASSES[0]).expand(actual.shape).flatten()
    is_wrong, is_there = codes.flatten() >= _FIRST_WRONG, ~missing.flatten()
    wrong, others = ((which & is_there).nonzero().flatten() for which in (is_wrong, ~is_wrong))
    chosen = sorted([*wrong[:_MOST_WRONG].tolist(), *others[:_MOST_RIGHT].tolist()])
    gives = None if mistaken is None else mistaken.flatten()
    return tuple(
        Element(
            index=tuple(int(i) for i in torch.unravel_index(torch.tensor(at), actual.shape)),
            expected=_json_number(float(value[at])),
            actual=_json_number(float(flat[at])),
            error=_json_number(float((flat[at].double() - value[at]).abs() / bound[at]), digits=4),
            mistake=None if gives is None else _json_number(float(gives[at])),
        )
        for at in chosen
    )


def _json_number(number: float, digits: int = 9) -> float | str:
    """Return a number with a few significant digits, or as text if it is not finite.

    The default of nine digits is as many as a float32 has.
    """
    return float(f"{number:.{digits}g}") if math.isfinite(number) else str(number)
