"""Which submissions to compare on which problems."""

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
class BothSides:
    """One submission on one problem, on both sides.

    Attributes:
        submission: Its name.
        problem: The problem as it is now; both sides are judged by it.
        head: The submission as it is now, if it stands for the problem.
        before: What is known of the base, if it did.
        fault: Why the head's file, which is there, does not stand for the problem.
        path: That file.
        is_changed: Whether anything of it differs from the base.
        unread: Why the base's file of this name, which is there, cannot be compared with.
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
    """What there is to compare.

    Attributes:
        pairs: Both sides of each.
        rejected: The files that are no submissions and were none before.
        renamed: Old names by new ones.
    """

    pairs: tuple[BothSides, ...]
    rejected: tuple[Rejected, ...]
    renamed: Mapping[str, str]


def in_tree(
    tree: Tree, submissions: Sequence[Submission], problems: Sequence[Problem]
) -> dict[Key, Before]:
    """What an older tree has of each of its submissions."""
    found = {}
    for problem in problems:
        # Both versions are judged by the problem as it is now; of another one nothing is known.
        problem_hash = problem.content_hash if _is_as_it_was(tree, problem.path) else ""
        for submission in submissions:
            if fits(submission, problem) is None:
                key = (submission.name, problem.name)
                found[key] = Before(submission.content_hash, problem_hash, submission)
    return found


def _is_as_it_was(tree: Tree, path: Path) -> bool:
    name = tree.name(path)
    old = None if name is None else tree.base.where(name)
    return name is None or (old is not None and old.read_bytes() == path.read_bytes())


def unread(rejected: Iterable[Rejected]) -> dict[str, str]:
    """Why files of the base cannot be read, by name; of those that may have been submissions."""
    return {each.path.stem: each.message for each in rejected if not each.is_other}


def plan(
    head: Discovery,
    problems: Sequence[Problem],
    base: Mapping[Key, Before],
    *,
    everything: bool,
    unread: Mapping[str, str] | None = None,
) -> GatePlan:
    """BothSides both sides.

    Args:
        head: What lies under the paths now.
        problems: As they are now.
        base: What is known of the base, by submission and problem.
        everything: Whether what is unchanged counts as changed.
        unread: Why files of the base cannot be read, by name.
    """
    renamed = _renamed(head, base)
    new_names = {old: new for new, old in renamed.items()}
    base = {(new_names.get(name, name), about): before for (name, about), before in base.items()}
    pairs = [
        replace(pair, unread=(unread or {}).get(pair.submission, "") if not pair.before else "")
        for problem in problems
        for pair in _of_problem(head, problem, base, everything)
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
    head: Discovery, problem: Problem, base: Mapping[Key, Before], everything: bool
) -> Iterator[BothSides]:
    now = {submission.name: submission for submission in head.submissions}
    broken = {rejected.path.stem: rejected for rejected in head.rejected}
    names = {name for name, about in base if about == problem.name}
    fitting = {name for name, submission in now.items() if fits(submission, problem) is None}
    for name in sorted(names | fitting):
        before = base.get((name, problem.name))
        if name in fitting:
            submission = now[name]
            changed = everything or before is None or _differs(submission, problem, before)
            yield BothSides(
                name, problem, submission, before, path=submission.path, is_changed=changed
            )
        elif name in now:
            why = fits(now[name], problem) or ""
            yield BothSides(name, problem, None, before, why, now[name].path)
        elif name in broken:
            yield BothSides(name, problem, None, before, broken[name].message, broken[name].path)
        else:
            yield BothSides(name, problem, None, before)


def _differs(submission: Submission, problem: Problem, before: Before) -> bool:
    now = (submission.content_hash, problem.content_hash)
    return now != (before.content_hash, before.problem_hash)
