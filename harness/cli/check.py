"""The arguments of `harness check`."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli import option_types
from harness.cli.options import (
    Commands,
    add_colour,
    add_grid_and_seed,
    add_place_and_limits,
    add_problem,
    add_reference,
    check_references,
)
from harness.system.errors import UsageError
from harness.system.files import require


def add_to(commands: Commands) -> None:
    """Add the command `check` with its arguments to the command line."""
    parser = commands.add_parser("check", help="check submissions against their references")
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="submissions: files, or folders of them"
    )
    add_reference(parser.add_argument)
    add_grid_and_seed(parser.add_argument)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE|FOLDER",
        help="write a page with verdicts, wrong outputs and speeds; into a folder, with the "
        "leaderboard's page",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write each report as one line of JSON; - is standard output"
    )
    option_types.add_untrusted(parser.add_argument)
    _add_what_is_checked(parser)
    add_place_and_limits(parser)
    _add_outputs(parser)
    _add_requirements(parser)


def _add_what_is_checked(parser: argparse.ArgumentParser) -> None:
    checked = parser.add_argument_group("what is checked")
    add_problem(checked.add_argument)
    checked.add_argument(
        "--resume",
        action="store_true",
        help="take over the reports that an earlier run finished with the same files and options, "
        "and run the rest",
    )
    cases = parser.add_argument_group("cases and seeds")
    cases.add_argument(
        "--case",
        action="append",
        metavar="ID",
        help="run only this case, and keep no report; with --seed it replays one case (repeatable)",
    )
    option_types.add_search(cases.add_argument)
    cases.add_argument(
        "--schedule",
        type=option_types.schedule,
        default=0,
        metavar="N",
        help="run blocks and warps in an order drawn from this seed, to find code that depends on "
        "the order (default: 0, the natural order; simulator only)",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    outputs = parser.add_argument_group("outputs")
    outputs.add_argument(
        "--junitxml",
        type=Path,
        metavar="FILE",
        help="write a JUnit XML file with a test for each case, as pytest does",
    )
    outputs.add_argument(
        "--coverage",
        type=Path,
        metavar="FILE",
        help="write which lines of device code ran, in lcov's format (simulator only)",
    )
    add_colour(outputs.add_argument)


def _add_requirements(parser: argparse.ArgumentParser) -> None:
    required = parser.add_argument_group("what must hold")
    required.add_argument(
        "--require",
        type=option_types.share_of_cases,
        default=0.0,
        metavar="all|own|N%",
        help="share of the cases that must pass, where declined and skipped cases have not passed "
        "(default: own, the problem's own configuration)",
    )
    required.add_argument(
        "--require-coverage",
        type=option_types.share,
        default=0.0,
        metavar="N%",
        help="share of the lines of device code that must run in some case (simulator only)",
    )
    required.add_argument(
        "--require-own-work",
        type=option_types.share,
        default=0.0,
        metavar="N%",
        help="share of the reference's work that the submission's own kernels must do (default: "
        "some of several operators may be left to torch)",
    )


def _run(options: argparse.Namespace) -> int:
    require(options.paths)
    check_references(options)
    if options.case and (options.resume or options.json or options.junitxml):
        raise UsageError(
            "--case: runs a part of the cases, so no report is kept; leave out --resume, "
            "--json and --junitxml"
        )
    if options.case and options.search:
        raise UsageError("--search: a search starts after all cases have passed; leave out --case")
    for name, path in (("--junitxml", options.junitxml), ("--coverage", options.coverage)):
        if path and path.is_dir():
            raise UsageError(f"{name} {path}: is a folder; give a file")
    from harness.cli.checking import check

    return check(options)
