"""Who stands where: submissions on one problem, ranked among those that were measured alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path

from harness.problems.discovery import Submission, fits
from harness.problems.problem import Problem
from harness.records import store
from harness.records.comparison import PRECISIONS, Precision
from harness.records.report import Report
from harness.speed import result as results
from harness.speed.result import SpeedResult, why_not_comparable


@dataclass(frozen=True)
class Standing:
    """One submission on one problem.

    Attributes:
        submission: Its name.
        report: Of a check of it as it is now; None where there was none.
        result: What was measured of it, the newest.
        is_stale: Whether the result is of another content of the submission or the problem.
        rank: Among those of its precision class that were measured alike; None for what cannot be
            ranked.
    """

    submission: str
    report: Report | None
    result: SpeedResult | None = None
    is_stale: bool = False
    rank: int | None = None

    @property
    def fresh(self) -> SpeedResult | None:
        """The result, if it is of this very content."""
        return None if self.is_stale else self.result

    @property
    def verdict(self) -> str:
        """Of the check."""
        return self.report.verdict if self.report else "not checked"

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong with it, so far as it was tried."""
        return self.report is not None and self.report.is_right

    @property
    def precision(self) -> Precision | None:
        """The class of the grid with the timed shape where that is known, else of the check.

        There is none where the bound is an estimate.
        """
        if self.verdict == "agrees":
            return None
        if self.fresh:
            return self.fresh.precision
        return self.report.precision if self.report else None

    @property
    def is_ranked_by_speed(self) -> bool:
        """Whether it is right, and its time is to be trusted."""
        return self.is_right and self.fresh is not None and not self.fresh.findings


@dataclass(frozen=True)
class Board:
    """Submissions on one problem whose times may be compared, and those that have none.

    Attributes:
        title: The problem's name, and the GPU's where there are several boards of it.
        measured: The newest result among them, whose conditions, floor and baselines stand for
            all; None where nothing was measured.
        standings: What passed, class by class, the most precise class and in it the best first;
            then all others.
    """

    title: str
    measured: SpeedResult | None
    standings: tuple[Standing, ...]

    def lists(self) -> Iterator[tuple[str, tuple[Standing, ...]]]:
        """The standings of each precision class, and those of no class, with a title.

        A faster kernel of a less precise class stands in the list below, since each list's times
        are compared with baselines of its own class.
        """
        found = [(name, tuple(group)) for name, group in groupby(self.standings, _list_of)]
        if len(found) == 1:
            # There is nothing that it would have to be told from.
            yield "", found[0][1]
        else:
            yield from found


def boards(
    problem: Problem, submissions: Iterable[Submission], reports: Path, measured: Path
) -> tuple[Board, ...]:
    """Rank the submissions that fit a problem.

    Args:
        problem: The problem.
        submissions: All of them.
        reports: The folder of what was checked here.
        measured: The folder of what was measured.

    Returns:
        A board for each set of results that may be compared, the one with the newest first; it has
        the submissions without a result too. One board where nothing was measured.
    """
    fitting = [submission for submission in submissions if fits(submission, problem) is None]
    checked = {s.name: _report(s, problem, reports) for s in fitting}
    every = sorted(results.read(measured, problem.name), key=lambda result: result.measured_at)
    groups: list[list[SpeedResult]] = []
    unmeasured = []
    for submission in fitting:
        own = [result for result in every if result.submission == submission.name]
        fresh = [result for result in own if _is_of(result, submission, problem)]
        for result in fresh:
            _group_of(result, groups).append(result)
        if not fresh:
            newest = own[-1] if own else None
            stale = newest is not None
            unmeasured.append(Standing(submission.name, checked[submission.name], newest, stale))
    groups.sort(key=lambda group: max(result.measured_at for result in group), reverse=True)
    found = [_board(problem, group, checked, only=len(groups) == 1) for group in groups]
    first = found[0] if found else Board(problem.name, None, ())
    first = replace(first, standings=_ranked((*first.standings, *unmeasured)))
    return (first, *found[1:])


def _report(submission: Submission, problem: Problem, reports: Path) -> Report | None:
    """The report of a check, if it is of the very content of submission and problem."""
    report = store.find(reports, problem.name, submission.name)
    wanted = (submission.content_hash, problem.content_hash)
    if report is None or (report.content_hash, report.problem_hash) != wanted:
        return None
    return report


def _is_of(result: SpeedResult, submission: Submission, problem: Problem) -> bool:
    wanted = (submission.content_hash, problem.content_hash)
    return (result.content_hash, result.problem_hash) == wanted


def _group_of(result: SpeedResult, groups: list[list[SpeedResult]]) -> list[SpeedResult]:
    """The results that one may be compared with; a new group where there are none."""
    for group in groups:
        if why_not_comparable(group[0], result) is None:
            return group
    groups.append([])
    return groups[-1]


def _board(
    problem: Problem,
    group: Sequence[SpeedResult],
    checked: Mapping[str, Report | None],
    *,
    only: bool,
) -> Board:
    newest = {result.submission: result for result in group}
    standings = [Standing(name, checked[name], result) for name, result in newest.items()]
    last = max(group, key=lambda result: result.measured_at)
    title = problem.name if only else f"{problem.name} on {last.device}"
    return Board(title, last, _ranked(standings))


def _ranked(standings: Iterable[Standing]) -> tuple[Standing, ...]:
    """In order, with ranks: by speedup, or by cases that pass where nobody was measured."""
    ordered = sorted(standings, key=_order)
    by_speed = any(standing.is_ranked_by_speed for standing in ordered)
    of_classes = (group for _, group in groupby(ordered, _list_of))
    return tuple(chain.from_iterable(_with_ranks(group, by_speed=by_speed) for group in of_classes))


def _list_of(standing: Standing) -> str:
    """The title of the list that it stands in."""
    if not standing.is_right:
        return "not ranked"
    return f"precision class {standing.precision}" if standing.precision else "agree"


def _with_ranks(ordered: Iterable[Standing], *, by_speed: bool) -> Iterator[Standing]:
    rank = 0
    for standing in ordered:
        # Who was not measured is neither faster nor slower than who was.
        counts = standing.is_ranked_by_speed if by_speed else standing.is_right
        rank += counts
        yield replace(standing, rank=rank if counts else None)


def _order(standing: Standing) -> tuple[object, ...]:
    """Right before wrong, precise before less precise, fast before slow, general before narrow."""
    report = standing.report
    return (
        {"passed": 0, "agrees": 0, "not checked": 1}.get(standing.verdict, 2),
        PRECISIONS.index(standing.precision) if standing.precision else len(PRECISIONS),
        not standing.is_ranked_by_speed,
        -standing.fresh.speedup if standing.fresh else 0.0,
        -report.count("passed") if report else 0,
        standing.submission,
    )


def portable(board: Board) -> Board:
    """What of a board is the same on every machine that has the same files.

    How long a build takes, where a check ran, and counters, which another compiler makes others,
    are this machine's, and cases at random sizes or from a search are this run's.
    """
    return replace(
        board,
        standings=tuple(
            replace(s, report=s.report and _portable(s.report)) for s in board.standings
        ),
    )


def _portable(report: Report) -> Report:
    # What was drawn at random may have been declined here, and not there.
    drawn = tuple(case for case in report.cases if case.label not in ("random", "search"))
    return replace(report, device="", builds=(), counters=None, coverage=None, cases=drawn)
