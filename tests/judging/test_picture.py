"""Pictures of wrong outputs: the code of each cell, and the limit of their size."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.judging.oracle import CLASSES, expected
from harness.judging.picture import MistakenOutput, WrongOutput, _as_pages, picture
from harness.problems.grid import Case, case_again
from harness.problems.problem import Problem, load
from harness.problems.runs import Run
from harness.problems.values import runs_for, values_for
from harness.records.picture import LEVELS, Picture
from harness.system import codec
from tests.support import REFERENCE, discovered

UNIFORM, EXACT = "uniform", "exact"


class Drawn:
    """A case of the transposed convolution with inputs of a given length, and its right output."""

    def __init__(self, length: int, run: str = UNIFORM, batch: int = 2) -> None:
        self.problem: Problem = load(REFERENCE / "conv_transpose1d.py")
        arguments = {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "stride": 1}
        self.case: Case = case_again(
            self.problem, discovered("flat_index"), "k3", "grid", arguments,
            ((batch, 2, length),), {}, seed=5,
        )  # fmt: skip
        self.run: Run = next(each for each in runs_for(self.problem) if each.name == run)
        self.values = values_for(self.problem, self.case, self.run)
        self.right = expected(self.problem, self.case, self.values.weights, self.values.inputs)
        self.output = self.right.value.float()

    def of(
        self,
        actual: Tensor,
        unwritten: Tensor | None = None,
        mistake: Tensor | None = None,
        **more: Any,
    ) -> Picture:
        """Return the picture of the wrong output `actual`.

        The picture includes the output of a mistake if `mistake` is given.
        """
        wrong = self.wrong(actual, unwritten, **more)
        mistaken = None if mistake is None else MistakenOutput("padding ignored", mistake)
        return picture(self.problem, self.case, wrong, mistaken)

    def wrong(self, actual: Tensor, unwritten: Tensor | None = None, **more: Any) -> WrongOutput:
        """Return the record of a wrong output `actual` of this case, with `more` fields."""
        return WrongOutput(self.run, self.values, actual, unwritten, has_gaps=False, **more)


def test_nothing_warns(recwarn: pytest.WarningsRecorder) -> None:
    """An output that is not contiguous is drawn without a warning of torch."""
    drawn = Drawn(10)
    drawn.of(drawn.output.mT.contiguous().mT + 1.0)
    assert not list(recwarn)


def test_each_cell_says_which_class_allows_its_element() -> None:
    """A cell's code is that of the tightest class that allows the element, or of what is wrong.

    Codes distinguish how wrong a number is, infinity, NaN, and elements never written.
    """
    drawn = Drawn(10)
    actual, unwritten = drawn.output.clone(), torch.zeros(drawn.output.shape, dtype=torch.bool)
    bounds = [drawn.right.bound(each)[0, 0] for each in CLASSES]
    for at in range(4):
        # Just within the class's bound, and beyond those of tighter classes.
        actual[0, 0, at] += 0.9 * bounds[at][at].float()
    actual[0, 0, 4] += 5 * bounds[3][4].float()
    actual[0, 0, 5] += 1e9
    actual[0, 0, 6], actual[0, 0, 7], actual[0, 0, 8] = math.inf, math.nan, math.nan
    unwritten[0, 0, 8] = unwritten[0, 0, 9] = True
    found = drawn.of(actual, unwritten).overview
    shown = found.errors[0][0]
    # The code is that of the first class that allows the error; tf32 may allow what fp16 does.
    assert shown[:2] + shown[3] == ".tb"
    assert shown[2] == ("t" if bounds[2][2] <= bounds[1][2] else "h")
    # An element that was not written but is right is not wrong.
    assert shown[4:10] == "29inu."
    assert found.actual[0][0][6:10] == "inuu"
    assert found.errors[1] == ("." * 12,) * 3


def test_exact_numbers_allow_no_error_to_fp32() -> None:
    """An element with any error has the code of a looser class than fp32 in an exact run."""
    drawn = Drawn(6, EXACT)
    actual = drawn.output.clone()
    actual[0, 0, 2] = torch.nextafter(actual[0, 0, 2], torch.tensor(1e9))
    assert drawn.of(actual).overview.errors[0][0] == "..t....."


def test_values_show_where_numbers_went() -> None:
    """The map of values of a shifted output is the map of expected values, shifted."""
    drawn = Drawn(20)
    found = drawn.of(drawn.output.roll(1, -1)).overview
    for right, wrong in zip(found.expected[0], found.actual[0], strict=True):
        assert wrong[1:] == right[:-1]
        assert set(right) <= set(LEVELS) - set("Einue")
    assert any(level in "".join(found.expected[0]) for level in "dD")


@pytest.mark.parametrize(("length", "batch"), [(20, 2), (20, 300), (70_000, 2), (3_000, 40)])
def test_size_is_bounded(length: int, batch: int) -> None:
    """The picture of an output of any size stays below 24 kB and starts at page 0."""
    drawn = Drawn(length, batch=batch)
    found = drawn.of(-drawn.output - 1, mistake=drawn.output.double())
    assert len(codec.encode(found)) < 24_000
    assert found.overview.pages[0] == 0
    assert found.shape == (batch, 3, length + 2)


def test_large_output_has_its_first_wrong_elements_in_detail() -> None:
    """One wrong element shows in the reduced map and at its place in the detailed one."""
    drawn = Drawn(5_000, batch=9)
    actual = drawn.output.clone()
    actual[7, 1, 3_001] += 100
    found = drawn.of(actual)
    overview, detail = found.overview, found.detail
    assert 7 in overview.pages
    row = overview.errors[overview.pages.index(7)][1]
    assert [at for at, code in enumerate(row) if code != "."] == [3_001 // overview.step[1]]
    assert detail is not None
    assert detail.pages == (7,)
    assert detail.step == (1, 1)
    top, left = detail.first
    assert detail.errors[0][1 - top][3_001 - left] == "9"
    assert sum(code != "." for line in detail.errors[0] for code in line) == 1
    (wrong,) = [element for element in found.elements if element.index == (7, 1, 3_001)]
    assert wrong.actual == pytest.approx(wrong.expected + 100)  # type: ignore[operator]


def test_what_the_mistake_gives_stands_beside() -> None:
    """The map and the numbers of the diagnosed mistake are those of the mistake's output."""
    drawn = Drawn(8)
    mistake = drawn.output.double().clone()
    mistake[0, 2, 4] = 77.0
    actual = drawn.output.clone()
    actual[0, 2, 4], actual[1, 0, 0] = 77.0, math.nan
    found = drawn.of(actual, mistake=mistake)
    assert found.overview.mistake[0] == found.overview.errors[0]
    assert found.overview.mistake[1] != found.overview.errors[1]
    by_index = {element.index: element for element in found.elements}
    assert by_index[0, 2, 4].mistake == 77.0
    assert by_index[1, 0, 0].actual == "nan"
    assert "NaN" not in codec.encode(found)
    assert codec.decode(json.dumps(json.loads(codec.encode(found))), Picture) == found
    assert found.mistake == "padding ignored"


def test_what_is_written_beside_an_output_is_beside_it() -> None:
    """Stores before and after an output are drawn where they lie in memory."""
    drawn = Drawn(8)
    size = drawn.output.numel()
    beside = ((size, size), (size + 12, size + 13), (-3, -2), (size + 999, size + 999))
    found = drawn.of(drawn.output, beside=beside).overview
    assert found.first == (-1, 0)
    right = ["." * 10] * 3
    # Stores four rows away or more are not drawn.
    assert found.errors == (
        (" " * 7 + "oo ", *right, *[" " * 10] * 4),
        (" " * 10, *right, "o" + " " * 9, "  oo" + " " * 6, " " * 10, " " * 10),
    )
    assert found.actual[1][4][0] == "o"
    alone = MistakenOutput("only stores outside the output")
    again = picture(drawn.problem, drawn.case, drawn.wrong(drawn.output, beside=beside), alone)
    assert again.overview.mistake == found.errors
    assert again.elements[0].mistake is None


def test_output_of_another_shape_lies_over_the_right_one() -> None:
    """An output of another shape is compared where it overlaps the right one.

    Missing elements count as never written, and additional ones as out of bounds.
    """
    drawn = Drawn(8)
    actual = torch.zeros(2, 4, 9)
    actual[:, :3] = drawn.output[..., :9]
    actual[0, 0, 0] += 1e9
    found = drawn.of(actual)
    assert found.shape == (2, 4, 10)
    assert found.overview.errors[0] == ("9........u", *["." * 9 + "u"] * 2, "o" * 9 + " ")
    assert (0, 0, 9) not in [element.index for element in found.elements]
    assert found.elements[0].index == (0, 0, 0)
    alone = picture(
        drawn.problem, drawn.case, drawn.wrong(actual), MistakenOutput("only another shape")
    )
    assert alone.overview.mistake[0] == ("." * 9 + "u", *found.overview.errors[0][1:])


def test_output_that_never_came_is_never_written() -> None:
    """If the call gave no output, the picture shows every element as never written.

    A mistake that reads out of bounds is drawn as out of bounds.
    """
    drawn = Drawn(8)
    mistake = MistakenOutput("bias read although it does not exist", is_from_outside=True)
    found = picture(drawn.problem, drawn.case, drawn.wrong(torch.empty(0)), mistake)
    assert set("".join(found.overview.errors[0])) == {"u"}
    assert set("".join(found.overview.mistake[0])) == {"o"}
    assert found.elements == ()


def test_what_is_no_number_for_loads_out_of_bounds_is_out_of_bounds() -> None:
    """If loads were out of bounds, NaN is drawn as out of bounds, and a wrong number as wrong."""
    drawn = Drawn(8)
    actual = drawn.output.clone()
    actual[0, 0, 3], actual[0, 0, 4] = math.nan, 1e9
    assert drawn.of(actual).overview.errors[0][0] == "...n9....."
    outside = drawn.of(actual, is_from_outside=True)
    assert outside.overview.errors[0][0] == "...o9....."


def test_any_rank_is_seen_as_pages() -> None:
    """Tensors of any rank are drawn as pages of rows and columns."""
    assert _as_pages(torch.zeros(5)).shape == (1, 1, 5)
    assert _as_pages(torch.zeros(())).shape == (1, 1, 1)
    assert _as_pages(torch.zeros(4, 5)).shape == (1, 4, 5)
    assert _as_pages(torch.zeros(2, 3, 4, 5)).shape == (6, 4, 5)
