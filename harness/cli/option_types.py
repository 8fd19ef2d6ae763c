"""Parsers of option values, and options, that the command line and the pytest plugin share.

Every process of pytest imports this module, even in projects that do not use the harness. So it
imports almost nothing.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from harness import defaults

# In milliseconds, this fits into the 32 bits of a socket's timeout.
_MOST_SECONDS = 1_000_000.0
_MOST_BILLIONS = 1_000_000.0


def count(text: str) -> int:
    """Parse a whole number of at least 1.

    Raises:
        ArgumentTypeError: The text is not a whole number, or is less than 1.
    """
    return _whole(text, least=1)


def schedule(text: str) -> int:
    """Parse the simulator's schedule: 0 for the natural order, or the seed of a permutation.

    Raises:
        ArgumentTypeError: The text is not a whole number, or is negative.
    """
    return _whole(text, least=0)


def seconds(text: str) -> float:
    """Parse a positive duration in seconds.

    Raises:
        ArgumentTypeError: The text is not a number above 0, or is too large.
    """
    what = f"a number of seconds greater than 0 and at most {_MOST_SECONDS:.0f}"
    return _positive(text, _MOST_SECONDS, what)


def billions(text: str) -> int:
    """Parse a number that is given in units of 10^9, and return it as a whole number.

    Raises:
        ArgumentTypeError: The text is not a number above 0, or is too large.
    """
    return int(_positive(text, _MOST_BILLIONS, "a number greater than 0, such as 3 or 0.5") * 1e9)


def share(text: str) -> float:
    """Parse a percentage, such as `90%`, and return it as a fraction from 0 to 1.

    Raises:
        ArgumentTypeError: The text is not a percentage above 0 and at most 100.
    """
    what = "a percentage, such as 90%"
    return _positive(text.removesuffix("%"), 100.0, what) / 100


def share_of_cases(text: str) -> float:
    """Parse `all`, `own` or a percentage of cases, and return it as a fraction from 0 to 1.

    `own` gives 0: only the reference's own configuration must pass, and no other case.

    Raises:
        ArgumentTypeError: The text is none of these.
    """
    known = {"all": 1.0, "own": 0.0}
    return known[text] if text in known else share(text)


def add_limits(add: Callable[..., object]) -> None:
    """Add the time limits (--step-seconds, --check-seconds, --build-seconds) and --call-budget.

    Args:
        add: `add_argument` of argparse's parser, or `addoption` of pytest's group.
    """
    for name, default, what in (
        ("--step-seconds", defaults.STEP_SECONDS, "one step: the import, construction or one call"),
        ("--check-seconds", defaults.CHECK_SECONDS, "all steps of one submission together"),
        ("--build-seconds", defaults.BUILD_SECONDS, "all builds of one submission together"),
    ):
        add(
            name,
            type=seconds,
            default=default,
            metavar="S",
            help=f"deadline in seconds for {what} (default: %(default)g)",
        )
    add(
        "--call-budget",
        type=billions,
        default=defaults.CALL_BUDGET,
        metavar="G",
        help="on the simulator, skip cases of which one call takes more than G * 10^9 "
        f"thread-instructions (default: {defaults.CALL_BUDGET / 1e9:g})",
    )


def add_untrusted(add: Callable[..., object]) -> None:
    """Add the option --untrusted; `add` is as in `add_limits`."""
    add(
        "--untrusted",
        action="store_true",
        help="for untrusted files: run nothing unless every layer of the sandbox holds",
    )


def add_readable(add: Callable[..., object]) -> None:
    """Add the option --readable; `add` is as in `add_limits`."""
    add(
        "--readable",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="file or folder that submissions may read, such as headers (repeatable)",
    )


def add_search(add: Callable[..., object], prefix: str = "--") -> None:
    """Add the option --search, which looks for failures at sizes outside the grid.

    `add` and `prefix` are as in `add_engine`.
    """
    add(
        f"{prefix}search",
        type=seconds,
        default=0.0,
        metavar="S",
        help="after all cases have passed, search for so many seconds for sizes that fail, and "
        "report the smallest (default: 0, no search)",
    )


def add_engine(add: Callable[..., object], prefix: str = "--") -> None:
    """Add the options that choose an engine: --engine and --scheduler.

    Args:
        add: As in `add_limits`.
        prefix: Beginning of the options' names. It differs under pytest, where plugins share one
            namespace.
    """
    add(
        f"{prefix}engine",
        default="",
        metavar="NAME",
        help="what runs the evaluations: in_process, processes or dask (default: this process, "
        "or several processes for several submissions)",
    )
    add(
        f"{prefix}scheduler",
        default="",
        metavar="ADDRESS",
        help=f"with {prefix}engine dask: address of a running Dask scheduler, such as "
        "tcp://10.0.0.1:8786 (default: a cluster in this process, on this machine)",
    )


def _positive(text: str, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise ArgumentTypeError(f"invalid value {text!r}: expected {what}")
    return number


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentTypeError(f"invalid value {text!r}: expected a whole number, {least} or more")
    return number
