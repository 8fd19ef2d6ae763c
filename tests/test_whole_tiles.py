"""Submissions that use tensor cores, in cases where each block computes several whole tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evaluate import Request, evaluate
from harness.problems.configuration import ConstructorCall
from harness.problems.grid import Case
from harness.records.report import Report
from tests.support import REFERENCE, SUBMISSIONS

PRECISIONS = {"wgmma_tf32": "tf32", "wgmma_3xtf32": "fp32"}

# The grid's own cases have fewer positions than one tile. On a device of two multiprocessors each
# block walks over several tiles, and fills every stage of its ring more than once.
MULTIPROCESSORS = 2


def whole_tiles(*shape: int, **arguments: int) -> Case:
    """Return a case with this input shape and these arguments, whose work fills several tiles.

    The simulated device has two multiprocessors, so that each block computes several tiles.
    """
    return Case(
        id="whole-tiles",
        label="grid",
        arguments=arguments,
        input_shapes=(shape,),
        input_dtypes=("float32",),
        seed=1,
        family="conv_transpose1d",
        constructor_call=ConstructorCall((), arguments),
        multiprocessors=MULTIPROCESSORS,
    )


CASES = {
    "conv_transpose1d": whole_tiles(1, 128, 392, in_channels=128, out_channels=128, kernel_size=3),
    "conv_transpose1d_dilated": whole_tiles(
        1, 32, 1030, in_channels=32, out_channels=64, kernel_size=5, dilation=3, padding=3
    ),
    "conv_transpose1d_strided_dilated": whole_tiles(
        1, 32, 1030, in_channels=32, out_channels=64, kernel_size=3, stride=2, dilation=2, padding=1
    ),
}


@pytest.fixture(scope="module")
def checked() -> dict[tuple[str, str], Report]:
    """Return the report of each tensor core submission on each reference.

    The key has the names of submission and reference.
    """
    return {
        (name, problem): evaluate(request(SUBMISSIONS / f"{name}.py", problem, case))
        for name in PRECISIONS
        for problem, case in CASES.items()
    }


def request(path: Path, problem: str, case: Case) -> Request:
    """Return a request to check a submission on one case that is not in the grid."""
    reference = REFERENCE / f"{problem}.py"
    return Request(path, reference, "simulator", cases=(case,), is_whole=False)


@pytest.mark.thorough
@pytest.mark.parametrize("problem", CASES)
@pytest.mark.parametrize("name", PRECISIONS)
def test_whole_tiles_are_right(
    checked: dict[tuple[str, str], Report], name: str, problem: str
) -> None:
    """A submission passes a case of several tiles, in its precision class and without findings.

    So it is right within tiles, at their edges, and from one tile to the next.
    """
    report = checked[name, problem]
    assert report.verdict == "passed", report.message
    (case,) = report.cases
    assert case.precision == PRECISIONS[name]
    assert case.findings == ()
