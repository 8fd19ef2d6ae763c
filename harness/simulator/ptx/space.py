"""PTX's state spaces: what code calls them, and the numbers that simulated accesses have for them.

This is their only definition. C gets the numbers from here too, in the header that
`layout/header.py` writes.
"""

from __future__ import annotations

from enum import StrEnum


class Space(StrEnum):
    """A state space by its name in PTX; `GENERIC` is meant where an instruction names none."""

    number: int
    """By which C knows it; -1 where no instruction gets there."""

    def __new__(cls, name: str, number: int) -> Space:
        """A member: its name in PTX, and its number."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.number = number
        return member

    GLOBAL = "global", 0
    SHARED = "shared", 1
    LOCAL = "local", 2
    PARAM = "param", 3
    GENERIC = "generic", 4
    CONST = "const", 0
    TEX = "tex", -1

    @property
    def lies_in(self) -> Space:
        """The space whose memory it is: variables in constant memory lie in global memory."""
        return Space.GLOBAL if self is Space.CONST else self


SHARED_CTA, SHARED_CLUSTER = f"{Space.SHARED}::cta", f"{Space.SHARED}::cluster"
"""Modifiers that say whose shared memory is meant; here a cluster is one block."""
WINDOWS = (Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.PARAM)
"""The spaces that a generic address leads to, by number."""
GENERIC_SHIFT = 56
"""A generic address tells its space in the top byte; global addresses have zero there."""

_NAMED = {str(space): space for space in Space if space is not Space.GENERIC}


def space_named(modifier: str) -> Space | None:
    """The state space that a modifier such as `global` or `shared::cta` names.

    >>> space_named("shared::cluster"), space_named("relaxed")
    (<Space.SHARED: 'shared'>, None)
    """
    return _NAMED.get(modifier.split("::")[0])


def resolved(address: int) -> tuple[Space | None, int]:
    """The space that a generic address leads to, None where there is none, and the address there.

    >>> resolved(1 << GENERIC_SHIFT | 16)
    (<Space.SHARED: 'shared'>, 16)
    """
    number, within = divmod(address, 1 << GENERIC_SHIFT)
    return (WINDOWS[number] if number < len(WINDOWS) else None), within
