"""What several commands of the command line have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import devices, option_types
from harness.escape import one_line
from harness.pool import usable_cores
from harness.problem import Problem
from harness.references import load_references
from harness.sandbox import bubblewrap, layers
from harness.worker.supervisor import Deadlines

PASSED, NOT_PASSED, USAGE = 0, 1, 2
"""Exit statuses; `USAGE` also where the harness itself could not do its work."""


_REFERENCES = Path("reference")


class UsageError(ValueError):
    """The command line asks for something that cannot be; the message is one line."""


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Which references: --problem and --reference."""
    parser.add_argument("--problem", metavar="NAME", help="only this one of the references")
    parser.add_argument(
        "--reference",
        action="append",
        type=Path,
        metavar="PATH",
        help="reference file, or folder of them (default: reference/; repeatable)",
    )


def add_evaluation_options(parser: argparse.ArgumentParser) -> None:
    """How submissions are run, from --device to --readable."""
    parser.add_argument(
        "--device",
        choices=devices.CHOICES,
        default="auto",
        help="default: the GPU if there is one, else the simulator",
    )
    parser.add_argument(
        "--grid", choices=("quick", "full"), default="quick", help="all pairs of values, or triples"
    )
    parser.add_argument("--seed", type=int, help="replay a report's values (default: new ones)")
    parser.add_argument(
        "--jobs",
        type=option_types.count,
        default=usable_cores(),
        metavar="N",
        help="submissions at a time (default: one for each processor)",
    )
    parser.add_argument(
        "--step-seconds",
        type=option_types.seconds,
        default=Deadlines.step,
        metavar="S",
        help="deadline for importing, constructing and each call (default: %(default)s)",
    )
    add_sandbox_options(parser)


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    """What submissions may: --untrusted and --readable."""
    parser.add_argument(
        "--untrusted",
        action="store_true",
        help="the files are of strangers: run nothing unless every layer of the sandbox holds",
    )
    parser.add_argument(
        "--readable",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="file or folder that submissions may read, such as headers (repeatable)",
    )


def check_paths(paths: Iterable[Path]) -> None:
    """See that files and folders of submissions are there.

    Raises:
        UsageError: one of them is not.
    """
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder")


def check_sandbox(readable: Sequence[Path], *, untrusted: bool) -> None:
    """See that there is a sandbox, where the submissions need one, and what they may read.

    Raises:
        UsageError: a path does not exist, or not all of the sandbox holds.
    """
    missing = [path for path in readable if not path.exists()]
    if missing:
        raise UsageError(f"--readable {missing[0]}: no such file or folder")
    if untrusted and (reason := layers.why_not()):
        raise UsageError(f"--untrusted: {reason}")


def sandbox_note() -> str:
    """One line for people where submissions run without a sandbox; empty where they have one."""
    why = bubblewrap.why_not_usable()
    return one_line(f"submissions run without a sandbox: {why}") if why else ""


def references_of(options: argparse.Namespace) -> tuple[Problem, ...]:
    """All that --reference names, whatever --problem says.

    Raises:
        UsageError: nothing is named, and there is no folder of references here.
        harness.problem.ProblemError: a file is no reference.
    """
    if options.reference is None and not _REFERENCES.exists():
        raise UsageError(
            f"there is no folder {_REFERENCES}/ here; say what to compare with: --reference PATH"
        )
    return load_references(options.reference or [_REFERENCES])


def problems_of(options: argparse.Namespace) -> tuple[Problem, ...]:
    """The references that --reference and --problem name.

    Raises:
        UsageError: there is none of that name, or none at all.
        harness.problem.ProblemError: a file is no reference.
    """
    problems = references_of(options)
    if options.problem is None:
        return problems
    chosen = tuple(problem for problem in problems if problem.name == options.problem)
    if not chosen:
        names = ", ".join(problem.name for problem in problems)
        raise UsageError(f"--problem {options.problem}: no such reference; there are {names}")
    return chosen
