"""The arguments of `harness leaderboard`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Commands, add_problem, add_reference, check_references
from harness.defaults import RESULTS
from harness.leaderboard.formats import FORMATS, HTML
from harness.system.files import require


def add_to(commands: Commands) -> None:
    """Add the command `leaderboard` with its arguments to the command line."""
    parser = commands.add_parser(
        "leaderboard", help="rank the submissions that were checked and measured"
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
    add_reference(parser.add_argument)
    add_problem(parser.add_argument)
    parser.add_argument(
        "--format",
        choices=(HTML, *FORMATS),
        default="simple",
        metavar="FORMAT",
        help="html, a page with charts, or a table format of tabulate, such as github or plain "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--reports",
        default="",
        metavar="ADDRESS",
        help="with --format html: address of a page of `harness report --html`, to which each "
        "name links",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="folder of the measured speeds (default: %(default)s)",
    )
    parser.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="also write a Markdown file that is the same on every machine, and print whether it "
        "changed",
    )


def _run(options: argparse.Namespace) -> int:
    require(options.paths)
    check_references(options)
    from harness.cli.ranking import rank

    return rank(options)
