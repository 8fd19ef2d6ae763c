"""The state spaces of PTX: their names in PTX, and the numbers by which C code identifies them.

The numbers are defined only here. C code gets them from the header that `layout/header.py`
generates.
"""

from __future__ import annotations

from enum import StrEnum


class Space(StrEnum):
    """A state space of PTX, with its PTX name as the value.

    `GENERIC` is the space of an instruction that names none: the address selects the space.

    Attributes:
        number: Number of the space in the simulator's C code, or -1 if it cannot be accessed.
            `CONST` has the number of `GLOBAL`.
    """

    number: int

    def __new__(cls, name: str, number: int) -> Space:
        """Make a member from the space's PTX name and its number in C."""
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
        """The space whose memory holds the variables of this space.

        The variables of `CONST` are in global memory. Any other space holds its own variables.
        """
        return Space.GLOBAL if self is Space.CONST else self


SHARED_CTA, SHARED_CLUSTER = f"{Space.SHARED}::cta", f"{Space.SHARED}::cluster"
"""Modifiers that name the owner of shared memory; a cluster is one block here."""
WINDOWS = (Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.PARAM)
"""The spaces that a generic address can refer to, by number."""
GENERIC_SHIFT = 56
"""Position of the space in a generic address: its top byte, which is 0 for global addresses."""

_NAMED = {str(space): space for space in Space if space is not Space.GENERIC}


def space_named(modifier: str) -> Space | None:
    """Return the state space that a modifier of an instruction names, or None if it names none.

    >>> space_named("shared::cluster"), space_named("relaxed")
    (<Space.SHARED: 'shared'>, None)
    """
    return _NAMED.get(modifier.split("::")[0])


def resolved(address: int) -> tuple[Space | None, int]:
    """Split a generic address into its state space and the address within that space.

    The space is None if the address does not belong to any space.

    >>> resolved(1 << GENERIC_SHIFT | 16)
    (<Space.SHARED: 'shared'>, 16)
    """
    number, within = divmod(address, 1 << GENERIC_SHIFT)
    return (WINDOWS[number] if number < len(WINDOWS) else None), within
