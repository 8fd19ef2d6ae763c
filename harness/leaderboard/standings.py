"""Standings: the submissions on one problem, ranked if their speeds can be compared."""

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
    """The result of one submission on one problem, with its rank.

    Attributes:
        submission: Name of the submission.
        report: Report of a check of the submission's present content; None if this content was not
            checked.
        result: The newest speed result of the submission; None if its speed was not measured.
        is_stale: Whether the submission's or the problem's file has changed since the speed was
            measured.
        rank: Rank among the submissions of the same precision class whose speeds can be compared;
            None if the submission cannot be ranked.
    """

    submission: str
    report: Report | None
    result: SpeedResult | None = None
    is_stale: bool = False
    rank: int | None = None

    @property
    def fresh(self) -> SpeedResult | None:
        """The speed result, if it belongs to the present content of submission and problem."""
        return None if self.is_stale else self.result

    @property
    def verdict(self) -> str:
        """The verdict of the check, or "not checked"."""
        return self.report.verdict if self.report else "not checked"

    @property
    def is_right(self) -> bool:
        """True if the check found nothing wrong."""
        return self.report is not None and self.report.is_right

    @property
    def precision(self) -> Precision | None:
        """The precision class, such as fp32: that of a fresh speed result, or else of the check.

        The speed result comes first, because its class also holds at the timed shape. None if
        the error bound is an estimate, or if nothing was checked or measured.
        """
        if self.verdict == "agrees":
            return None
        if self.fresh:
            return self.fresh.precision
        return self.report.precision if self.report else None

    @property
    def is_ranked_by_speed(self) -> bool:
        """True if the submission is right, and its speed result is fresh and has no findings."""
        return self.is_right and self.fresh is not None and not self.fresh.findings


@dataclass(frozen=True)
class Board:
    """Submissions on one problem whose times may be compared, and submissions without a time.

    Attributes:
        title: The problem's name, and the name of the GPU if the problem has several boards.
        measured: The newest speed result of the board; its conditions, floor and baselines apply to
            the whole board. None if nothing was measured.
        standings: First the submissions that passed: the most precise class first, and in each
            class the best first. Then all others.
    """

    title: str
    measured: SpeedResult | None
    standings: tuple[Standing, ...]

    def lists(self) -> Iterator[tuple[str, tuple[Standing, ...]]]:
        """Yield the standings in lists with titles: one for each precision class, then the others.

        A kernel of a less precise class is in a later list, even if it is faster. The times of each
        list are compared with baselines of the same class. A single list has an empty title.
        """
        found = [(name, tuple(group)) for name, group in groupby(self.standings, _list_of)]
        if len(found) == 1:
            # A single list needs no title.
            yield "", found[0][1]
        else:
            yield from found


def boards(
    problem: Problem,
    submissions: Iterable[Submission],
    reports: Path,
    measured: Path,
    problems: Sequence[Problem] = (),
) -> tuple[Board, ...]:
    """Rank the submissions that can be used for a problem.

    Args:
        problem: The problem.
        submissions: All submissions, including those for other problems.
        reports: Folder of the reports of checks on this machine.
        measured: Folder of the speed results.
        problems: All problems. A submission with the name of one of them is for that problem only.

    Returns:
        A board for each set of comparable speed results, the newest set first. The first board
        also has the submissions without a speed result; it is the only board if nothing was
        measured.
    """
    fitting = [each for each in submissions if fits(each, problem, problems) is None]
    checked = {s.name: _report(s, problem, reports) for s in fitting}
    every = sorted(results.read(measured, problem.name), key=lambda result: result.measured_at)
    # Results that cannot be compared get boards of their own. A conversion between GPUs or driver
    # versions would be a guess.
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
    """Return the report of the last check of a submission on a problem, or None.

    The result is None, too, if the submission's or the problem's file has changed since the check.
    """
    report = store.find(reports, problem.name, submission.name)
    wanted = (submission.content_hash, problem.content_hash)
    if report is None or (report.content_hash, report.problem_hash) != wanted:
        return None
    return report


def _is_of(result: SpeedResult, submission: Submission, problem: Problem) -> bool:
    wanted = (submission.content_hash, problem.content_hash)
    return (result.content_hash, result.problem_hash) == wanted


def _group_of(result: SpeedResult, groups: list[list[SpeedResult]]) -> list[SpeedResult]:
    """Return the group of speed results that `result` can be compared with, or add a new group."""
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
    """Sort and rank standings by speedup, or by passed cases if no standing has a time."""
    ordered = sorted(standings, key=_order)
    # Without any time, as on a machine that never measured, passed cases decide the order.
    by_speed = any(standing.is_ranked_by_speed for standing in ordered)
    of_classes = (group for _, group in groupby(ordered, _list_of))
    return tuple(chain.from_iterable(_with_ranks(group, by_speed=by_speed) for group in of_classes))


def _list_of(standing: Standing) -> str:
    """Return the title of the list that a standing belongs to, such as its precision class."""
    if not standing.is_right:
        return "not ranked"
    return f"precision class {standing.precision}" if standing.precision else "agree"


def _with_ranks(ordered: Iterable[Standing], *, by_speed: bool) -> Iterator[Standing]:
    rank = 0
    for standing in ordered:
        # A submission without a time is neither faster nor slower than one with a time.
        counts = standing.is_ranked_by_speed if by_speed else standing.is_right
        rank += counts
        yield replace(standing, rank=rank if counts else None)


def _order(standing: Standing) -> tuple[object, ...]:
    """Return a sort key: right before wrong, then precise, then fast, then many passed cases."""
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
    """Return a board without the facts that differ between machines with the same files.

    The removed facts are build times, the device of the check, counters (which depend on the
    compiler), coverage, and cases at random sizes or from a search.
    """
    return replace(
        board,
        standings=tuple(
            replace(s, report=s.report and _portable(s.report)) for s in board.standings
        ),
    )


def _portable(report: Report) -> Report:
    # A random case may be declined in one run and not in another.
    drawn = tuple(case for case in report.cases if case.label not in ("random", "search"))
    return replace(report, device="", builds=(), counters=None, coverage=None, cases=drawn)
