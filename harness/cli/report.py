"""The arguments of `harness report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Commands, add_colour
from harness.defaults import RESULTS
from harness.system.files import require


def add_to(commands: Commands) -> None:
    """Add the command `report` with its arguments to the command line."""
    parser = commands.add_parser("report", help="show recorded reports as text, or as a page")
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="files of `harness check --json` or of speed results, or folders of them (default: "
        ".harness/reports, the last checks in this folder); the earlier reports of a submission "
        "are its history",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE|FOLDER",
        help="write a self-contained page instead of text",
    )
    add_colour(parser.add_argument)
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="folder of the measured speeds (default: %(default)s)",
    )


def _run(options: argparse.Namespace) -> int:
    require(options.paths)
    from harness.cli.reporting import report

    return report(options)
