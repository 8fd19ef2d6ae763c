"""What several commands say before they begin, and where they write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

from harness.cli.options import sandbox_note
from harness.problems.discovery import Discovery, Submission, fits
from harness.problems.problem import Problem
from harness.system.errors import UsageError
from harness.system.escape import one_line
from harness.system.output import JsonLines
from harness.system.output import open_json as open_lines


def open_json(target: str | None, stack: ExitStack) -> JsonLines | None:
    """What `--json` names, where it is given.

    Raises:
        UsageError: it cannot be opened.
    """
    try:
        return None if target is None else open_lines(target, stack)
    except OSError as error:
        raise UsageError(f"--json {target}: {error.strerror}") from None


def say_what_is_missing(out: IO[str]) -> None:
    """A line where submissions run as they are."""
    note = sandbox_note()
    if note:
        print(f"note: {note}", file=out, flush=True)


def say_what_is_refused(found: Discovery, problems: Sequence[Problem], out: IO[str]) -> int:
    """A line for each file that cannot be checked; answers how many there are."""
    lines = [f"{rejected.path}: {rejected.message}" for rejected in found.rejected]
    lines += [
        f"{submission.path}: fits no problem: {_why_unfit(submission, problems)}"
        for submission in found.submissions
        if all(fits(submission, problem) for problem in problems)
    ]
    for line in lines:
        print(one_line(line), file=out, flush=True)
    return len(lines)


def _why_unfit(submission: Submission, problems: Sequence[Problem]) -> str:
    return "; ".join(f"{problem.name}: {fits(submission, problem)}" for problem in problems)
