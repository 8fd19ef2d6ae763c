"""PTX's state spaces: their names in PTX, and their numbers in simulated accesses.

This is their only definition. C code gets the numbers from the header that `layout/header.py`
writes.
"""

from __future__ import annotations

from enum import StrEnum


class Space(StrEnum):
    """A state space by its name in PTX; `GENERIC` stands for an instruction that names none.

    Attributes:
        number: Number of the space in C, or -1 for a space that no instruction accesses.
    """

    number: int

    def __new__(cls, name: str, number: int) -> Space:
        """Make a member of its name in PTX and its number."""
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
        """The space whose memory it uses; constant variables are in global memory."""
        return Space.GLOBAL if self is Space.CONST else self


SHARED_CTA, SHARED_CLUSTER = f"{Space.SHARED}::cta", f"{Space.SHARED}::cluster"
"""Modifiers that name the owner of shared memory; a cluster is one block here."""
WINDOWS = (Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.PARAM)
"""The spaces that a generic address can refer to, by number."""
GENERIC_SHIFT = 56
"""Position of the space in a generic address: its top byte, which is 0 for global addresses."""

_NAMED = {str(space): space for space in Space if space is not Space.GENERIC}


def space_named(modifier: str) -> Space | None:
    """Return the state space that a modifier such as `global` or `shared::cta` names.

    >>> space_named("shared::cluster"), space_named("relaxed")
    (<Space.SHARED: 'shared'>, None)
    """
    return _NAMED.get(modifier.split("::")[0])


def resolved(address: int) -> tuple[Space | None, int]:
    """Return the space of a generic address (None if it has none), and the address in that space.

    >>> resolved(1 << GENERIC_SHIFT | 16)
    (<Space.SHARED: 'shared'>, 16)
    """
    number, within = divmod(address, 1 << GENERIC_SHIFT)
    return (WINDOWS[number] if number < len(WINDOWS) else None), within
