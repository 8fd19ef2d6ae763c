"""Notes that several commands print before they begin, and the opening of the `--json` file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

from harness.cli.options import sandbox_note
from harness.compiler.tried import torch_note
from harness.problems.discovery import Discovery, Submission, fits
from harness.problems.problem import Problem
from harness.system.errors import UsageError
from harness.system.output import JsonLines, say
from harness.system.output import open_json as open_lines


def open_json(target: str | None, stack: ExitStack) -> JsonLines | None:
    """Open the target of `--json`; return None if the option is not given.

    Raises:
        UsageError: The file cannot be opened.
    """
    try:
        return None if target is None else open_lines(target, stack)
    except OSError as error:
        raise UsageError(f"--json {target}: {error.strerror}") from None


def print_notes(out: IO[str]) -> None:
    """Print a note if submissions run without a sandbox, and one if this torch is untested."""
    note = sandbox_note()
    if note:
        say(f"note: {note}", out)
    untried = torch_note()
    if untried:
        say(f"note: {untried}", sys.stderr)


def refusals(found: Discovery, problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """Return, for each file that cannot be checked, its name and a line with path and reason."""
    told = [(each.path.stem, f"{each.path}: {each.message}") for each in found.rejected]
    unfit = (
        s for s in found.submissions if all(fits(s, problem, problems) for problem in problems)
    )
    told += [(s.name, f"{s.path}: fits no problem: {_why_unfit(s, problems)}") for s in unfit]
    return told


def print_refusals(found: Discovery, problems: Sequence[Problem], out: IO[str]) -> int:
    """Print a line for each file that cannot be checked, and return the number of these files."""
    told = refusals(found, problems)
    for _, line in told:
        say(line, out)
    return len(told)


def _why_unfit(submission: Submission, problems: Sequence[Problem]) -> str:
    return "; ".join(f"{each.name}: {fits(submission, each, problems)}" for each in problems)
