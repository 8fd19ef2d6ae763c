"""Reports that a later run may take over."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.compiler.cache import file_digest
from harness.engines.finished import Finished
from harness.evaluate import Request
from harness.problems.discovery import discover
from harness.problems.grid import cases_for
from harness.problems.problem import load
from harness.records.report import Report
from harness.worker.supervisor import Deadlines
from tests.support import ROOT, SUBMISSIONS, case, report


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    """Of a submission and a reference that are there."""
    for name in ("mine.py", "conv.py"):
        (tmp_path / name).write_text(f"# {name}\n")
    return Request(tmp_path / "mine.py", tmp_path / "conv.py", "simulator", seed=7)


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    """Nothing was kept yet."""
    return Finished(tmp_path / ".harness", gpu="")


def of(request: Request) -> Report:
    """The report of a request that passed, drawn from its seed."""
    hashes = file_digest(request.submission), file_digest(request.problem)
    blank = report(case("passed"), verdict="passed", seed=request.seed)
    return replace(blank, content_hash=hashes[0], problem_hash=hashes[1])


def test_same_question_gets_the_kept_answer(request_: Request, finished: Finished) -> None:
    """Whatever the seed, the number of cores and the deadlines are now, unless a seed is asked."""
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
    request_: Request, finished: Finished, reference: str
) -> None:
    """What was drawn for one run stands for what another would draw, of any reference."""
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
def test_another_question_does_not(request_: Request, finished: Finished, change: str) -> None:
    """What was asked for belongs to the answer."""
    finished.keep(request_, of(request_))
    assert finished.find(CHANGES[change](request_)) is None


@pytest.mark.parametrize("name", ["mine.py", "conv.py"])
def test_changed_contents_are_run_again(request_: Request, finished: Finished, name: str) -> None:
    """Of the submission and of the reference."""
    finished.keep(request_, of(request_))
    (request_.submission.parent / name).write_text("# other\n")
    assert finished.find(request_) is None


def test_changed_source_beside_it_is_run_again(request_: Request, finished: Finished) -> None:
    """A submission may compile files of its folder, which its own text does not show."""
    finished.keep(request_, of(request_))
    header = request_.submission.parent / "part" / "kernel.cuh"
    header.parent.mkdir()
    header.write_text("")
    os.utime(header, (0, 0))
    assert finished.find(request_)
    os.utime(header, (1 << 32, 1 << 32))
    assert finished.find(request_) is None


def test_changed_file_that_it_may_read_is_run_again(
    request_: Request, finished: Finished, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What --readable names counts as what lies beside the submission."""
    table = tmp_path_factory.mktemp("readable") / "table.txt"
    table.write_text("1 2 3")
    for readable in (table, table.parent / "more"):
        asked = replace(request_, readable=(readable,))
        finished.keep(asked, of(asked))
        assert finished.find(asked)
    os.utime(table, (1 << 32, 1 << 32))
    assert finished.find(replace(request_, readable=(table,))) is None


def test_an_error_is_tried_again(request_: Request, finished: Finished) -> None:
    """A deadline, a full disk or a killed process may have been the machine's fault."""
    finished.keep(request_, replace(of(request_), verdict="error"))
    assert finished.find(request_) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\0", b'{"schema": 1}'])
def test_damaged_file_is_as_none(
    request_: Request, finished: Finished, tmp_path: Path, damage: bytes
) -> None:
    """Whatever is in it, the evaluation is made again, and kept again."""
    finished.keep(request_, of(request_))
    (file,) = (tmp_path / ".harness").iterdir()
    file.write_bytes(damage)
    assert finished.find(request_) is None
    finished.keep(request_, of(request_))
    assert finished.find(request_)


def test_old_ones_are_swept_up(request_: Request, finished: Finished, tmp_path: Path) -> None:
    """Nobody comes back for a run of last month, and the folder does not grow for ever."""
    finished.keep(request_, of(request_))
    (file,) = (tmp_path / ".harness").iterdir()
    os.utime(file, (0, 0))
    finished.keep(replace(request_, schedule=1), of(request_))
    assert not file.exists()
