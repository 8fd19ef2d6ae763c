"""`harness leaderboard`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness import store
from harness.discovery import discover
from harness.files import write_whole
from harness.leaderboard.page import page
from harness.leaderboard.standings import Board, boards, portable
from harness.leaderboard.tables import FORMATS, text
from harness.options import (
    PASSED,
    UsageError,
    add_problem_options,
    check_paths,
    problems_of,
)
from harness.speed import result as results

_HTML = "html"
_HEAD = "# Leaderboard\n\n<!-- Written by `make leaderboard`. -->"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("leaderboard", help="rank what was checked and measured")
    parser.set_defaults(run=_leaderboard, parser=parser)
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", default=[Path("submissions")]
    )
    add_problem_options(parser)
    parser.add_argument(
        "--format",
        choices=(_HTML, *FORMATS),
        default="simple",
        metavar="FORMAT",
        help="html (a page with charts), or one of tabulate's: github, plain, simple, ...",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=results.FOLDER,
        metavar="FOLDER",
        help="where measured speeds are (default: %(default)s)",
    )
    parser.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="also write a Markdown file that is the same on every machine, and say whether it "
        "changed",
    )


def _leaderboard(options: argparse.Namespace) -> int:
    check_paths(options.paths)
    submissions = discover(options.paths).submissions
    found = [
        board
        for problem in problems_of(options)
        for board in boards(problem, submissions, store.FOLDER, options.results)
    ]
    print(page(found) if options.format == _HTML else text(found, options.format))
    if options.update:
        print(f"\n{options.update}: {_update(options.update, found)}")
    return PASSED


def _update(path: Path, found: Sequence[Board]) -> str:
    """Write what of the boards holds everywhere; answers whether that is news."""
    fresh = f"{_HEAD}\n\n{text([portable(board) for board in found], 'github')}\n"
    try:
        if path.exists() and path.read_text() == fresh:
            return "unchanged"
        write_whole(path, fresh)
    except OSError as error:
        raise UsageError(f"--update {path}: {error.strerror}") from None
    return "changed"
