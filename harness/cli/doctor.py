"""The arguments and the output of `harness doctor`."""

from __future__ import annotations

import argparse

from harness.cli.options import NOT_PASSED, PASSED, Commands


def add_to(commands: Commands) -> None:
    """Add the command `doctor` with its arguments to the command line."""
    parser = commands.add_parser(
        "doctor", help="show what this machine has and lacks, and how to install what is missing"
    )
    parser.set_defaults(run=_run, parser=parser)


def _run(_: argparse.Namespace) -> int:
    from harness.cli.requirements import find_requirements

    requirements = find_requirements()
    for requirement in requirements:
        print(requirement.line)
    return PASSED if all(requirement.is_fine for requirement in requirements) else NOT_PASSED
