"""Kernels with the techniques of the fastest GPU kernels, such as tiles in shared memory.

Each kernel passes. If a barrier is removed from one of them, a race is found.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.evaluate import Request, evaluate
from harness.problems.discovery import discover
from harness.problems.grid import cases_for
from harness.problems.problem import load
from harness.records.findings import failing_findings
from harness.records.report import Report
from tests.support import REFERENCE, ROOT, OnDemand, thorough_but

FOLDER = ROOT / "tests" / "kernels"
PROBLEM = REFERENCE / "conv_transpose1d_dilated.py"
EVERY = 6
"""One in this many runs, of the cases other than the problem's own."""

PRECISIONS = {"tiled": "fp32", "warp_reduction": "fp32", "tensor_core": "tf32", "hopper": "tf32"}

BARRIER = "__syncthreads();"
# The purpose of each barrier in tiled.py, and the stores and loads that race without it. All are
# named by the comments at the ends of their lines.
RACES = {
    "loaded before used": {
        ("store inputs", "load inputs"),
        ("store weights", "load weights"),
    },
    "used before overwritten": {
        ("store inputs", "load inputs"),
        ("store weights", "load weights"),
        # The results overwrite both.
        ("store results", "load inputs"),
        ("store results", "load weights"),
    },
    "stored before written out": {("store results", "load results")},
}


def request(path: Path, *, own_case_only: bool = False) -> Request:
    """Return a request for the reference's own configuration and every sixth of the other cases.

    If `own_case_only`, the request has only the own configuration, which is at the reference's
    sizes.
    """
    (submission,) = discover([path]).submissions
    own, *others = cases_for(load(PROBLEM), submission)
    cases = [own] if own_case_only else [own, *others[::EVERY]]
    return Request(path, PROBLEM, "simulator", cases=tuple(cases), is_whole=False)


@pytest.fixture(scope="module")
def checked() -> dict[str, Report]:
    """Return the report of each file of tests/kernels, by the file's name."""
    return OnDemand(lambda name: evaluate(request(FOLDER / f"{name}.py")))


def test_every_kernel_has_an_expectation() -> None:
    """Every file of tests/kernels has an expected precision class in this module."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PRECISIONS)


@pytest.mark.parametrize("name", thorough_but({"warp_reduction"}, PRECISIONS))
def test_kernel_passes(checked: dict[str, Report], name: str) -> None:
    """A kernel passes all cases that it does not decline, without findings.

    Its precision class is the expected one, fp32 or tf32.
    """
    report = checked[name]
    assert report.verdict == "passed", report.message
    # tiled.py declines the largest convolution kernels, which do not fit into its shared memory.
    declined = [case.message for case in report.cases if case.verdict == "declined"]
    assert all("does not fit into shared memory" in message for message in declined)
    assert len(report.cases) - len(declined) == report.count("passed") > 5
    assert len(declined) <= 2
    assert report.precision == PRECISIONS[name]
    assert [finding for case in report.cases for finding in case.findings] == []
    (note,) = report.notes
    assert "the own configuration ran with inputs of" in note


@pytest.fixture(scope="module")
def without_barrier(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Return the reports of tiled.py with one barrier removed, by the barrier's purpose."""
    text = (FOLDER / "tiled.py").read_text()
    reports = {}
    for found in re.finditer(rf"{re.escape(BARRIER)}  // (.+)", text):
        path = tmp_path_factory.mktemp("barrier") / "tiled.py"
        path.write_text(text[: found.start()] + text[found.start() + len(BARRIER) :])
        reports[found[1]] = evaluate(request(path, own_case_only=True))
    assert len(reports) == text.count(BARRIER), "each barrier says what it is for"
    return reports


@pytest.mark.thorough
def test_every_barrier_is_taken_out(without_barrier: dict[str, Report]) -> None:
    """Every barrier of tiled.py has expected races in this module."""
    assert set(without_barrier) == set(RACES)


@pytest.mark.thorough
@pytest.mark.parametrize("purpose", RACES)
def test_missing_barrier_is_a_race(without_barrier: dict[str, Report], purpose: str) -> None:
    """Without a barrier, tiled.py fails with races between the lines that the barrier orders."""
    report = without_barrier[purpose]
    assert report.verdict == "failed"
    (case,) = report.cases
    lines = (FOLDER / "tiled.py").read_text().splitlines()
    told = set()
    for finding in failing_findings(case.findings):
        assert finding.check == "racecheck"
        assert finding.message.endswith("no barrier between them")
        pair = re.search(
            r"-byte store at tiled\.py:(\d+) races with the load at tiled\.py:(\d+) by thread",
            finding.message,
        )
        assert pair, finding.message
        store, load_ = (lines[int(number) - 1].rpartition("// ")[2] for number in pair.groups())
        told.add((store, load_))
    assert told <= RACES[purpose]
    assert {store for store, _ in told} == {store for store, _ in RACES[purpose]}
