"""The store of finished reports, from which a later run may reuse a report."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.compiler.cache import file_digest
from harness.engines.finished import ReportCache
from harness.evaluate import Request
from harness.problems.discovery import discover
from harness.problems.grid import cases_for
from harness.problems.problem import load
from harness.records.report import Report
from harness.worker.supervisor import Deadlines
from tests.support import ROOT, SUBMISSIONS, case, report


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    """Return a request for a submission and a reference whose files exist."""
    for name in ("mine.py", "conv.py"):
        (tmp_path / name).write_text(f"# {name}\n")
    return Request(tmp_path / "mine.py", tmp_path / "conv.py", "simulator", seed=7)


@pytest.fixture
def finished(tmp_path: Path) -> ReportCache:
    """Return an empty store of finished reports."""
    return ReportCache(tmp_path / ".harness", gpu="")


def of(request: Request) -> Report:
    """Return a passing report for a request, with the request's seed."""
    hashes = file_digest(request.submission), file_digest(request.problem)
    blank = report(case("passed"), verdict="passed", seed=request.seed)
    return replace(blank, content_hash=hashes[0], problem_hash=hashes[1])


def test_same_question_gets_the_kept_answer(request_: Request, finished: ReportCache) -> None:
    """A stored report is found even if the request has another seed, core count or deadline.

    If the user gives a seed, it must equal the report's seed.
    """
    kept = of(request_)
    finished.keep(request_, kept)
    later = replace(request_, seed=8, cores=3, deadlines=Deadlines(step=1))
    assert finished.find(later) == kept
    assert finished.find(later, seed=7) == kept
    assert finished.find(later, seed=8) is None


@pytest.mark.parametrize(
    "reference", ["reference/conv_transpose1d.py", "tests/faults/reference/double.py"]
)
def test_sizes_at_random_are_no_question(
    request_: Request, finished: ReportCache, reference: str
) -> None:
    """A stored report is found although the request has other randomly drawn sizes.

    The report is not found if the request has fewer cases.
    """
    (submission,) = discover([SUBMISSIONS / "flat_index.py"]).submissions
    problem = load(ROOT / reference)
    one, other = (tuple(cases_for(problem, submission, seed=seed)) for seed in (1, 2))
    unseeded = [[replace(case, seed=0) for case in cases] for cases in (one, other)]
    assert unseeded[0] != unseeded[1]
    kept = of(replace(request_, cases=one))
    finished.keep(replace(request_, cases=one), kept)
    assert finished.find(replace(request_, cases=other)) == kept
    assert finished.find(replace(request_, cases=other[1:])) is None


CHANGES: dict[str, Callable[[Request], Request]] = {
    "grid": lambda request: replace(request, grid="full"),
    "schedule": lambda request: replace(request, schedule=1),
    "cases": lambda request: replace(request, cases=(), is_whole=False),
    "device": lambda request: replace(request, device="cuda"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_question_does_not(request_: Request, finished: ReportCache, change: str) -> None:
    """A request with another grid, schedule, set of cases or device finds no stored report."""
    finished.keep(request_, of(request_))
    assert finished.find(CHANGES[change](request_)) is None


@pytest.mark.parametrize("name", ["mine.py", "conv.py"])
def test_changed_contents_are_run_again(
    request_: Request, finished: ReportCache, name: str
) -> None:
    """A stored report is not found after a change of the submission or of the reference."""
    finished.keep(request_, of(request_))
    (request_.submission.parent / name).write_text("# other\n")
    assert finished.find(request_) is None


def test_changed_source_beside_it_is_run_again(request_: Request, finished: ReportCache) -> None:
    """A stored report is not found after a change of a file in or below the submission's folder.

    The submission may compile that file, even if its text does not name the file.
    """
    finished.keep(request_, of(request_))
    header = request_.submission.parent / "part" / "kernel.cuh"
    header.parent.mkdir()
    header.write_text("")
    os.utime(header, (0, 0))
    assert finished.find(request_)
    os.utime(header, (1 << 32, 1 << 32))
    assert finished.find(request_) is None


def test_changed_file_that_it_may_read_is_run_again(
    request_: Request, finished: ReportCache, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A stored report is not found after a change of a file that `--readable` names."""
    table = tmp_path_factory.mktemp("readable") / "table.txt"
    table.write_text("1 2 3")
    for readable in (table, table.parent / "more"):
        asked = replace(request_, readable=(readable,))
        finished.keep(asked, of(asked))
        assert finished.find(asked)
    os.utime(table, (1 << 32, 1 << 32))
    assert finished.find(replace(request_, readable=(table,))) is None


def test_an_error_is_tried_again(request_: Request, finished: ReportCache) -> None:
    """A stored report with the verdict `error` is not reused, as the machine may be the cause.

    The cause may be a deadline, a full disk or a killed process.
    """
    finished.keep(request_, replace(of(request_), verdict="error"))
    assert finished.find(request_) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\0", b'{"schema": 1}'])
def test_damaged_file_is_as_none(
    request_: Request, finished: ReportCache, tmp_path: Path, damage: bytes
) -> None:
    """A damaged report file counts as missing, and the next report replaces it."""
    finished.keep(request_, of(request_))
    (file,) = (tmp_path / ".harness").iterdir()
    file.write_bytes(damage)
    assert finished.find(request_) is None
    finished.keep(request_, of(request_))
    assert finished.find(request_)


def test_old_ones_are_swept_up(request_: Request, finished: ReportCache, tmp_path: Path) -> None:
    """Storing a report deletes reports older than a week, so that the folder does not grow."""
    finished.keep(request_, of(request_))
    (file,) = (tmp_path / ".harness").iterdir()
    os.utime(file, (0, 0))
    finished.keep(replace(request_, schedule=1), of(request_))
    assert not file.exists()
