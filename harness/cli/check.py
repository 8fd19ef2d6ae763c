"""The arguments of `harness check`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli import option_types
from harness.cli.options import (
    Commands,
    add_colour,
    add_evaluation_options,
    add_problem_options,
    check_references,
)
from harness.system.errors import UsageError
from harness.system.files import require


def add_to(commands: Commands) -> None:
    """Add the command `check` to the command line."""
    parser = commands.add_parser("check", help="check submissions against their references")
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    add_problem_options(parser)
    add_evaluation_options(parser)
    parser.add_argument(
        "--json", metavar="FILE", help="write reports there, one JSON object a line; - is stdout"
    )
    parser.add_argument(
        "--junitxml",
        type=Path,
        metavar="FILE",
        help="write a JUnit XML file there, with a test for each case, as pytest would",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE|FOLDER",
        help="write a page there: what is wrong, where, and how fast; into a folder, with "
        "the leaderboard's page",
    )
    parser.add_argument(
        "--coverage",
        type=Path,
        metavar="FILE",
        help="write there which lines of device code ran, in lcov's format (simulator only)",
    )
    parser.add_argument(
        "--require",
        type=option_types.share_of_cases,
        default=0.0,
        metavar="all|own|N%",
        help="how many cases must have passed, and not be declined by the submission or left out "
        "(default: own, the problem's own configuration)",
    )
    parser.add_argument(
        "--require-coverage",
        type=option_types.share,
        default=0.0,
        metavar="N%",
        help="how many lines of device code must have run in some case (simulator only)",
    )
    parser.add_argument(
        "--require-own-work",
        type=option_types.share,
        default=0.0,
        metavar="N%",
        help="how much of the reference's work must be the submission's own kernels'; of several "
        "operators some may be left to torch otherwise",
    )
    parser.add_argument(
        "--schedule",
        type=option_types.schedule,
        default=0,
        metavar="N",
        help="permute the order of blocks and warps with this seed, to find what depends on it "
        "(default: 0, the natural order)",
    )
    option_types.add_search(parser.add_argument)
    add_colour(parser)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="take over what an earlier run had finished, of the same contents and by the same "
        "means, and run the rest",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="ID",
        help="run this case only, and keep no report of it (repeatable); with --seed it replays "
        "one case",
    )


def _run(options: argparse.Namespace) -> int:
    require(options.paths)
    check_references(options)
    if options.case and (options.resume or options.json or options.junitxml):
        raise UsageError(
            "--case: some cases are no report to keep; leave out --resume, --json and --junitxml"
        )
    if options.case and options.search:
        raise UsageError("--search: begins where all cases are right; leave out --case")
    for name, path in (("--junitxml", options.junitxml), ("--coverage", options.coverage)):
        if path and path.is_dir():
            raise UsageError(f"{name} {path}: is a folder; give a file")
    from harness.cli.checking import check

    return check(options)
