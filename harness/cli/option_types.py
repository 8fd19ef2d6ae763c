"""What numbers given on a command line may be: types for argparse, and for pytest's options.

Every process of pytest reads this, also where nobody uses the harness: it imports next to nothing.
"""

from __future__ import annotations

from argparse import ArgumentTypeError

# More milliseconds than this a socket's timeout does not hold.
_MOST_SECONDS = 1_000_000.0
_MOST_BILLIONS = 1_000_000.0


def count(text: str) -> int:
    """How many of something there must be at least one of.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    return _whole(text, least=1)


def schedule(text: str) -> int:
    """The natural order, 0, or the seed of another one.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    return _whole(text, least=0)


def seconds(text: str) -> float:
    """A time in which something can be done.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST_SECONDS:
        raise ArgumentTypeError(
            f"{text!r} cannot be; give seconds, more than 0 and at most {_MOST_SECONDS:.0f}"
        )
    return number


def billions(text: str) -> int:
    """A number of instructions, given in units of 10^9.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST_BILLIONS:
        raise ArgumentTypeError(f"{text!r} cannot be; give a number more than 0, such as 3 or 0.5")
    return int(number * 1e9)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentTypeError(f"{text!r} cannot be; give a whole number, {least} or more")
    return number
