"""Options and exit statuses that several commands of `harness` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
"""Exit statuses. `USAGE` is for invalid options, and for errors of the harness or the machine."""


_REFERENCES = Path("reference")


Add: TypeAlias = Callable[..., object]
"""The method `add_argument` of an argument parser, or of a group of arguments."""


def add_reference(add: Add) -> None:
    """Add the option --reference."""
    add(
        "--reference",
        action="append",
        type=Path,
        metavar="PATH",
        help="reference file, or folder of them (default: reference/; repeatable)",
    )


def add_problem(add: Add) -> None:
    """Add the option --problem."""
    add("--problem", metavar="NAME", help="use only the reference with this name")


def add_grid_and_seed(add: Add) -> None:
    """Add the options --grid and --seed, which select the cases and their random values."""
    add(
        "--grid",
        choices=("own", "quick", "full"),
        default="quick",
        help="configurations to check: the problem's own only, all pairs of parameter values, or "
        "all triples (default: quick)",
    )
    add(
        "--seed",
        type=int,
        metavar="N",
        help="draw the inputs and weights of the report with this seed (default: a new seed)",
    )


def add_place_and_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options for the device, the engine, the time limits and the readable files."""
    limits = parser.add_argument_group("limits")
    option_types.add_limits(limits.add_argument)
    place = parser.add_argument_group("where it runs")
    place.add_argument(
        "--device",
        choices=defaults.DEVICES,
        default="auto",
        help="where submissions run (default: the GPU if there is one, else the simulator)",
    )
    place.add_argument(
        "--jobs",
        type=option_types.count,
        metavar="N",
        help="submissions that run at the same time (default: one for each processor; on a GPU, "
        "as many as its memory can hold)",
    )
    option_types.add_engine(place.add_argument)
    option_types.add_readable(place.add_argument)


def engine_choice(options: argparse.Namespace) -> EngineChoice:
    """Return the choice of engine that --engine and --scheduler express.

    Raises:
        UsageError: Both --scheduler and --jobs are given. A cluster's workers decide themselves how
            many evaluations run at a time.
    """
    from harness.engines.engine import EngineChoice

    if options.scheduler and options.jobs:
        raise UsageError(
            "--jobs: the cluster's workers decide how many submissions run at a time; "
            "leave out --jobs"
        )
    return EngineChoice(options.engine, options.scheduler)


def add_colour(add: Add) -> None:
    """Add the option --no-color."""
    add(
        "--no-color",
        action="store_true",
        help="print without colours, as with the environment variable NO_COLOR",
    )


def sandbox_note() -> str:
    """Return one line that says why submissions run without a sandbox; empty if there is one."""
    why = bubblewrap.why_not_usable()
    return one_line(f"submissions run without a sandbox: {why}") if why else ""


def check_references(options: argparse.Namespace) -> None:
    """Check that --reference, or the default folder of references, exists.

    Raises:
        UsageError: A given path does not exist; or none is given, and the default folder does not
            exist.
    """
    if options.reference is None and not _REFERENCES.exists():
        raise UsageError(
            f"no folder {_REFERENCES}/ in the current folder; name the reference with "
            "--reference PATH"
        )
    require(options.reference or (), "--reference ")


def reference_paths(options: argparse.Namespace) -> list[Path]:
    """Return the paths that --reference gives, or else the default folder."""
    return list(options.reference or [_REFERENCES])
