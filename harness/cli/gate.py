"""The arguments of `harness gate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import (
    Commands,
    add_evaluation_options,
    add_problem_options,
    check_references,
)
from harness.defaults import RESULTS

_DESCRIPTION = """
Compare submissions with an older version of them. Only what changed is evaluated. What was right
must be right, and the precision class may not fall; speed is judged by the simulator's counters, or
by speed results that were measured alike. Exit status: 0 nothing is worse, 1 something is, 2 usage.
"""


def add_to(commands: Commands) -> None:
    """Add the command `gate` to the command line."""
    parser = commands.add_parser(
        "gate", help="compare submissions with an older version", description=_DESCRIPTION
    )
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", default=[Path("submissions")]
    )
    parser.add_argument(
        "--base",
        required=True,
        metavar="REV|FILE",
        help="a git revision to run again, or a file of reports (check --json) or speed results",
    )
    parser.add_argument(
        "--allow-new", action="store_true", help="let pass what the base does not have"
    )
    parser.add_argument("--all", action="store_true", help="evaluate what did not change as well")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="where this version's speed results are, for a FILE of those (default: %(default)s)",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE|FOLDER",
        help="write a page there that shows both sides of what changed",
    )
    add_problem_options(parser)
    add_evaluation_options(parser)


def _run(options: argparse.Namespace) -> int:
    check_references(options)
    from harness.cli.gating import gate

    return gate(options)
