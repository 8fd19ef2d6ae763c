"""The arguments of `harness gate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli import option_types
from harness.cli.options import (
    Commands,
    add_grid_and_seed,
    add_place_and_limits,
    add_problem,
    add_reference,
    check_references,
)
from harness.defaults import RESULTS

_DESCRIPTION = """
Compare submissions with an older version of them. Only changed submissions are evaluated. A case
that passed must pass again, and the precision class must not fall. Speed is compared by the
simulator's counters, or by speed results that were measured in the same way. Exit status: 0 nothing
is worse, 1 something is worse, 2 the command could not run.
"""


def add_to(commands: Commands) -> None:
    """Add the command `gate` with its arguments to the command line."""
    parser = commands.add_parser(
        "gate", help="compare submissions with an older version", description=_DESCRIPTION
    )
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        default=[Path("submissions")],
        help="submissions: files, or folders of them (default: submissions)",
    )
    parser.add_argument(
        "--base",
        required=True,
        metavar="REV|FILE",
        help="what to compare with: a git revision, which is run again, or a file of reports "
        "(check --json) or of speed results",
    )
    add_reference(parser.add_argument)
    add_grid_and_seed(parser.add_argument)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE|FOLDER",
        help="write a page with both versions of each changed submission",
    )
    option_types.add_untrusted(parser.add_argument)
    compared = parser.add_argument_group("what is compared")
    add_problem(compared.add_argument)
    compared.add_argument(
        "--all", action="store_true", help="evaluate unchanged submissions as well"
    )
    compared.add_argument(
        "--allow-new", action="store_true", help="accept submissions that the base does not have"
    )
    compared.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="folder of this version's speed results, where --base is a file of speed results "
        "(default: %(default)s)",
    )
    add_place_and_limits(parser)


def _run(options: argparse.Namespace) -> int:
    check_references(options)
    from harness.cli.gating import gate

    return gate(options)
