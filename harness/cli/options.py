"""Options and exit statuses that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness import defaults
from harness.cli import option_types
from harness.sandbox import bubblewrap
from harness.system.errors import UsageError
from harness.system.escape import one_line
from harness.system.files import require

if TYPE_CHECKING:  # at run time this would import torch, which takes seconds
    from harness.engines.engine import EngineChoice

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object to which `add_to` adds a command."""

PASSED, NOT_PASSED, USAGE = 0, 1, 2
"""Exit statuses. `USAGE` also means that the harness itself could not do its work."""


_REFERENCES = Path("reference")


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select references: --problem and --reference."""
    parser.add_argument("--problem", metavar="NAME", help="only this one of the references")
    parser.add_argument(
        "--reference",
        action="append",
        type=Path,
        metavar="PATH",
        help="reference file, or folder of them (default: reference/; repeatable)",
    )


def add_evaluation_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an evaluation, from --device to --readable."""
    parser.add_argument(
        "--device",
        choices=defaults.DEVICES,
        default="auto",
        help="default: the GPU if there is one, else the simulator",
    )
    parser.add_argument(
        "--grid",
        choices=("own", "quick", "full"),
        default="quick",
        help="the problem's own configuration alone, all pairs of values, or triples",
    )
    parser.add_argument("--seed", type=int, help="replay a report's values (default: new ones)")
    parser.add_argument(
        "--jobs",
        type=option_types.count,
        metavar="N",
        help="submissions at a time (default: one for each processor, on a GPU as many as its "
        "memory has room for)",
    )
    option_types.add_engine(parser.add_argument)
    option_types.add_limits(parser.add_argument)
    option_types.add_sandbox(parser.add_argument)


def engine_choice(options: argparse.Namespace) -> EngineChoice:
    """Return the engine that --engine and --scheduler ask for.

    Raises:
        UsageError: Both --scheduler and --jobs are given. A cluster's workers decide themselves how
            many evaluations run at a time.
    """
    from harness.engines.engine import EngineChoice

    if options.scheduler and options.jobs:
        raise UsageError(
            "--jobs: a cluster's workers say how much each does at a time; leave out --jobs"
        )
    return EngineChoice(options.engine, options.scheduler)


def add_colour(parser: argparse.ArgumentParser) -> None:
    """Add --no-color."""
    parser.add_argument(
        "--no-color", action="store_true", help="no colours on a terminal; so does NO_COLOR"
    )


def sandbox_note() -> str:
    """Return one line that says why submissions run without a sandbox; empty if they have one."""
    why = bubblewrap.why_not_usable()
    return one_line(f"submissions run without a sandbox: {why}") if why else ""


def check_references(options: argparse.Namespace) -> None:
    """Check that there are references to compare with.

    Raises:
        UsageError: No reference is given, and the default folder does not exist.
    """
    if options.reference is None and not _REFERENCES.exists():
        raise UsageError(
            f"there is no folder {_REFERENCES}/ here; say what to compare with: --reference PATH"
        )
    require(options.reference or (), "--reference ")


def reference_paths(options: argparse.Namespace) -> list[Path]:
    """Return the paths of --reference, or the default folder."""
    return list(options.reference or [_REFERENCES])
