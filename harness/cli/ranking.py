"""The execution of `harness leaderboard`: ranks submissions, and prints or writes the boards."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.cli.options import PASSED, reference_paths
from harness.leaderboard.formats import HTML
from harness.leaderboard.page import page
from harness.leaderboard.standings import Board, boards, portable
from harness.leaderboard.tables import text
from harness.problems.discovery import discover
from harness.problems.references import load_references, named
from harness.records import store
from harness.system.errors import UsageError
from harness.system.files import write_whole

_HEAD = "# Leaderboard\n\n<!-- Written by `make leaderboard`. -->"


def rank(options: argparse.Namespace) -> int:
    """Print the leaderboard, write it to the file of --update if given; return the exit status."""
    problems = named(load_references(reference_paths(options)), options.problem)
    submissions = discover(options.paths).submissions
    found = [
        board
        for problem in problems
        for board in boards(problem, submissions, store.FOLDER, options.results, problems)
    ]
    print(page(found, options.reports) if options.format == HTML else text(found, options.format))
    if options.update:
        print(f"\n{options.update}: {_update(options.update, found)}")
    return PASSED


def _update(path: Path, found: Sequence[Board]) -> str:
    """Write a Markdown file with those parts of the boards that do not depend on the machine.

    Returns:
        "changed" if the file's content changed, else "unchanged".
    """
    fresh = f"{_HEAD}\n\n{text([portable(board) for board in found], 'github')}\n"
    try:
        if path.exists() and path.read_text() == fresh:
            return "unchanged"
        write_whole(path, fresh)
    except OSError as error:
        raise UsageError(f"--update {path}: {error.strerror}") from None
    return "changed"
