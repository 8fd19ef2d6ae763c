"""The arguments of `harness profile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli import option_types
from harness.cli.options import Commands, add_problem, add_reference, check_references
from harness.system.errors import UsageError


def add_to(commands: Commands) -> None:
    """Add the command `profile` with its arguments to the command line."""
    parser = commands.add_parser(
        "profile", help="count what a submission's kernels do, on the simulator"
    )
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument(
        "submission", type=Path, metavar="SUBMISSION", help="file of one submission"
    )
    add_reference(parser.add_argument)
    add_problem(parser.add_argument)
    option_types.add_untrusted(parser.add_argument)
    option_types.add_readable(parser.add_argument)
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write all counts, one line of JSON for each problem; - is standard output",
    )


def _run(options: argparse.Namespace) -> int:
    if options.submission.is_dir():
        raise UsageError(f"{options.submission}: is a folder; give the file of one submission")
    if not options.submission.is_file():
        raise UsageError(f"{options.submission}: no such file")
    check_references(options)
    from harness.cli.profiling import profile_one

    return profile_one(options)
