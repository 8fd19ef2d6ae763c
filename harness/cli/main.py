"""The program `harness`: `check | report | leaderboard | profile | gate | doctor`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.cli import check, doctor, gate, leaderboard, profile, report
from harness.cli.options import USAGE
from harness.system.errors import HarnessError
from harness.system.output import say
from harness.system.warning import without_user_warnings
from harness.version import __version__

_COMMANDS = (check, report, leaderboard, profile, gate, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0 if all passed, 1 if something did not pass, or 2 after an error.

    Raises:
        OSError: The command cannot write to standard output or to another file that it needs.
    """
    options, unknown = command_line().parse_known_args(arguments)
    if unknown:
        # Print the usage of this command. argparse itself would print the usage of all commands.
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with without_user_warnings():
            status: int = options.run(options)
    except HarnessError as error:
        say(f"harness: {error}", sys.stderr)
        return USAGE
    return status


def command_line() -> argparse.ArgumentParser:
    """Return the argument parser of `harness` with all its commands."""
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Check, rank and gate CUDA kernel submissions, with or without a GPU.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
