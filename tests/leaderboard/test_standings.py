"""The order of submissions on leaderboards made from stored reports and speed results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.leaderboard.standings import Board, boards
from harness.problems.discovery import Submission, discover
from harness.problems.problem import Problem, load
from harness.records import store
from harness.speed import result as results
from harness.speed.result import SpeedResult
from tests.support import REFERENCE, SUBMISSIONS, case, report, speed_result

NAMES = ("dilated", "flat_index", "grid3d", "grouped_bias", "strided_dilated")


@dataclass(frozen=True)
class Scene:
    """A reference and some submissions, with a folder for their stored reports and speed results.

    No reports and no results are stored at first.
    """

    problem: Problem
    submissions: tuple[Submission, ...]
    folder: Path

    def check(self, *names: str, **fields: Any) -> None:
        """Store a passed report of each named submission; `fields` replace the defaults."""
        for name in names:
            own = {"submission": name, **self._hashes(name), "precision": "fp32"}
            kept = replace(
                report(case("passed"), verdict="passed", problem=self.problem.name),
                **{**own, **fields},
            )
            store.save(kept, self.folder / "reports")

    def measure(self, name: str, median_ms: float, **fields: object) -> SpeedResult:
        """Store a speed result of a submission, and return it; `fields` replace the defaults."""
        own = {**self._hashes(name), "problem": self.problem.name, **fields}
        result = speed_result(name, median_ms, **own)
        results.append(result, self.folder / "results")
        return result

    def boards(self) -> tuple[Board, ...]:
        """Return the leaderboards that the harness makes from the stored reports and results."""
        folders = (self.folder / "reports", self.folder / "results")
        return boards(self.problem, self.submissions, *folders)

    def _hashes(self, name: str) -> dict[str, Any]:
        content = next(s.content_hash for s in self.submissions if s.name == name)
        return {"content_hash": content, "problem_hash": self.problem.content_hash}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with five of the repository's submissions, all of which fit the reference."""
    problem = load(REFERENCE / "conv_transpose1d.py")
    files = [SUBMISSIONS / f"{name}.py" for name in NAMES]
    return Scene(problem, discover(files).submissions, tmp_path)


def ranks(board: Board) -> list[tuple[int | None, str]]:
    """Return the rank and name of each submission on a leaderboard, from top to bottom."""
    return [(standing.rank, standing.submission) for standing in board.standings]


def test_right_and_fast_first_and_only_those_have_ranks(scene: Scene) -> None:
    """Right submissions are ordered by speed, and a wrong one is last, however fast it is.

    Only right submissions with a measured time have ranks.
    """
    scene.check("flat_index", "grid3d", "dilated")
    scene.check("strided_dilated", verdict="failed", precision=None)
    for name, median in (("flat_index", 8.0), ("grid3d", 4.0), ("strided_dilated", 1.0)):
        scene.measure(name, median)
    (board,) = scene.boards()
    assert ranks(board) == [
        (1, "grid3d"),
        (2, "flat_index"),
        (None, "dilated"),
        (None, "grouped_bias"),
        (None, "strided_dilated"),
    ]


def test_without_results_precision_and_cases_rank(scene: Scene) -> None:
    """Without any speed result, submissions of a precision class are ranked by their passed cases.

    The class fp32 comes before tf32.
    """
    scene.check("dilated", precision="tf32")
    scene.check("flat_index")
    scene.check("grid3d", cases=(case("passed"), case("passed", "k5")))
    (board,) = scene.boards()
    assert ranks(board)[:3] == [(1, "grid3d"), (2, "flat_index"), (1, "dilated")]
    assert board.measured is None


def test_each_precision_class_has_a_list(scene: Scene) -> None:
    """Each precision class has a list of its own, so a fast TF32 kernel is below all fp32 ones."""
    scene.check("flat_index", "grid3d")
    scene.check("dilated", precision="tf32")
    scene.check("grouped_bias", verdict="failed", precision=None)
    for name, median in (("flat_index", 8.0), ("grid3d", 4.0)):
        scene.measure(name, median)
    scene.measure("dilated", 1.0, precision="tf32")
    (board,) = scene.boards()
    lists = [(title, [s.submission for s in found]) for title, found in board.lists()]
    assert lists == [
        ("precision class fp32", ["grid3d", "flat_index"]),
        ("precision class tf32", ["dilated"]),
        ("not ranked", ["strided_dilated", "grouped_bias"]),
    ]
    assert ranks(board)[:3] == [(1, "grid3d"), (2, "flat_index"), (1, "dilated")]


def test_times_of_other_conditions_are_on_another_board(scene: Scene) -> None:
    """Speed results of another GPU or another torch version are on a board of their own.

    The board with the newest result is first.
    """
    scene.check("flat_index", "grid3d")
    scene.measure("flat_index", 8.0)
    scene.measure("grid3d", 4.0, device="NVIDIA A100", measured_at="2026-11-22T00:00:00+00:00")
    scene.measure("flat_index", 2.0, torch="2.12", measured_at="2026-11-20T00:00:00+00:00")
    found = scene.boards()
    firsts = [ranks(board)[0] for board in found]
    assert firsts == [(1, "grid3d"), (1, "flat_index"), (1, "flat_index")]
    assert [board.title for board in found][:2] == [
        "conv_transpose1d on NVIDIA A100",
        "conv_transpose1d on NVIDIA H200",
    ]
    assert [len(board.standings) for board in found] == [4, 1, 1]


def test_old_results_are_shown_as_such(scene: Scene) -> None:
    """A speed result of another version of the submission or the reference is marked as stale.

    It gives no rank.
    """
    scene.check("flat_index", "grid3d", "dilated")
    scene.measure("flat_index", 1.0, content_hash="older")
    scene.measure("grid3d", 2.0, problem_hash="older")
    scene.measure("dilated", 4.0)
    # A fresh result hides older ones, and also newer ones of another content.
    scene.measure("dilated", 9.0, content_hash="x", measured_at="2026-11-22T00:00:00+00:00")
    (board,) = scene.boards()
    assert ranks(board)[0] == (1, "dilated")
    stale = {s.submission for s in board.standings if s.is_stale}
    assert stale == {"flat_index", "grid3d"}
    assert all(s.rank is None for s in board.standings if s.is_stale)
    assert board.standings[0].result is not None
    assert board.standings[0].result.median_ms == 4.0


def test_newest_result_counts_and_suspicious_ones_rank_nobody(scene: Scene) -> None:
    """The newest of a submission's speed results counts; a time below the floor gives no rank.

    The floor is the time that no kernel can beat. Results are only added to the file, never
    changed.
    """
    scene.check("flat_index", "grid3d")
    scene.measure("flat_index", 3.0, measured_at="2026-11-22T00:00:00+00:00")
    scene.measure("flat_index", 5.0)
    scene.measure("grid3d", 0.1, findings=("faster than the floor",))
    (board,) = scene.boards()
    assert ranks(board)[:2] == [(1, "flat_index"), (None, "grid3d")]
    assert board.standings[0].result is not None
    assert board.standings[0].result.median_ms == 3.0


def test_what_was_not_checked_here_has_its_speed_and_no_rank(scene: Scene) -> None:
    """A submission without a stored report is shown with its stored speed, and without a rank.

    A fresh clone has stored speed results, but no reports.
    """
    scene.measure("flat_index", 3.0)
    (board,) = scene.boards()
    first = board.standings[0]
    assert (first.submission, first.verdict, first.rank) == ("flat_index", "not checked", None)
    assert first.precision == "fp32"
