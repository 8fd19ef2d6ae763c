"""The plan of a gate: for each submission and problem, the old and the new version to compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.gate.before import Before, Key
from harness.gate.renames import renames
from harness.gate.revision import Tree
from harness.problems.discovery import Discovery, Rejected, Submission, fits
from harness.problems.problem import Problem


@dataclass(frozen=True)
class VersionPair:
    """The old version (base) and the new version (head) of one submission on one problem.

    Attributes:
        submission: Name of the submission.
        problem: The present problem, by which both versions are judged.
        head: The new version, if it fits the problem.
        before: The old version, if it exists and fits the problem.
        fault: If the head's file exists and does not fit the problem, the reason; else empty.
        path: The file of the new version, if it exists.
        is_changed: Whether submission or reference differ from the base, or the user asked to
            compare unchanged submissions too.
        unread: If the base's file of this name cannot be read, the reason; else empty.
    """

    submission: str
    problem: Problem
    head: Submission | None
    before: Before | None
    fault: str = ""
    path: Path | None = None
    is_changed: bool = True
    unread: str = ""


@dataclass(frozen=True)
class GatePlan:
    """All pairs of versions that a gate compares.

    Attributes:
        pairs: Old and new version for each submission and problem.
        rejected: Present files that are not submissions, and have no submission of the same name in
            the base.
        renamed: For the new name of each renamed submission, its old name.
    """

    pairs: tuple[VersionPair, ...]
    rejected: tuple[Rejected, ...]
    renamed: Mapping[str, str]


def in_tree(
    tree: Tree, submissions: Sequence[Submission], problems: Sequence[Problem]
) -> dict[Key, Before]:
    """Return the old version of each submission on each problem that the submission fits."""
    found = {}
    for problem in problems:
        # Both versions are judged by the present problem. An empty hash marks a problem that
        # changed, so every submission on it counts as changed.
        problem_hash = problem.content_hash if _is_as_it_was(tree, problem.path) else ""
        for submission in submissions:
            if fits(submission, problem, problems) is None:
                key = (submission.name, problem.name)
                found[key] = Before(submission.content_hash, problem_hash, submission)
    return found


def _is_as_it_was(tree: Tree, path: Path) -> bool:
    name = tree.name(path)
    old = None if name is None else tree.base.where(name)
    return name is None or (old is not None and old.read_bytes() == path.read_bytes())


def unread(rejected: Iterable[Rejected]) -> dict[str, str]:
    """Return, by submission name, why old files that may be submissions cannot be read."""
    return {each.path.stem: each.message for each in rejected if not each.is_other}


def plan(
    head: Discovery,
    problems: Sequence[Problem],
    base: Mapping[Key, Before],
    *,
    everything: bool,
    unread: Mapping[str, str] | None = None,
) -> GatePlan:
    """Return the plan that compares the present submissions with those of the base.

    Args:
        head: The present submissions and rejected files.
        problems: The present problems.
        base: The old versions, by names of submission and problem.
        everything: Whether unchanged submissions are compared too.
        unread: For each old file that cannot be read, by name, the reason.
    """
    renamed = _renamed(head, base)
    new_names = {old: new for new, old in renamed.items()}
    base = {(new_names.get(name, name), about): before for (name, about), before in base.items()}
    pairs = [
        replace(pair, unread=(unread or {}).get(pair.submission, "") if not pair.before else "")
        for problem in problems
        for pair in _of_problem(head, problem, problems, base, everything)
    ]
    known = {submission for submission, _ in base}
    rejected = tuple(r for r in head.rejected if r.path.stem not in known)
    return GatePlan(tuple(pairs), rejected, renamed)


def _renamed(head: Discovery, base: Mapping[Key, Before]) -> dict[str, str]:
    known = {name: before for (name, _), before in base.items()}
    now = {submission.name: submission for submission in head.submissions}
    there = now.keys() | {rejected.path.stem for rejected in head.rejected}
    gone = {name: before for name, before in known.items() if name not in there}
    return renames(gone, {name: now[name] for name in now.keys() - known.keys()})


def _of_problem(
    head: Discovery,
    problem: Problem,
    problems: Sequence[Problem],
    base: Mapping[Key, Before],
    everything: bool,
) -> Iterator[VersionPair]:
    now = {submission.name: submission for submission in head.submissions}
    broken = {rejected.path.stem: rejected for rejected in head.rejected}
    names = {name for name, about in base if about == problem.name}
    fitting = {n for n, submission in now.items() if fits(submission, problem, problems) is None}
    for name in sorted(names | fitting):
        before = base.get((name, problem.name))
        if name in fitting:
            submission = now[name]
            changed = everything or before is None or _differs(submission, problem, before)
            yield VersionPair(
                name, problem, submission, before, path=submission.path, is_changed=changed
            )
        elif name in now:
            why = fits(now[name], problem, problems) or ""
            yield VersionPair(name, problem, None, before, why, now[name].path)
        elif name in broken:
            yield VersionPair(name, problem, None, before, broken[name].message, broken[name].path)
        else:
            yield VersionPair(name, problem, None, before)


def _differs(submission: Submission, problem: Problem, before: Before) -> bool:
    now = (submission.content_hash, problem.content_hash)
    return now != (before.content_hash, before.problem_hash)
